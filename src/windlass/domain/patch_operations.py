"""Object operations that hooks ask for, read into types and kept within their package's bounds.

The operations and their fields are those of the hook protocol (reference: hooks.md section 6); unknown fields are
dropped, as there. The bounds are those of an Application (reference: deckhouse.md section 4): its own namespace, and
names that start with the instance's name. That a kind is namespaced is for discovery to say, not for this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal, NoReturn

from windlass.domain.documents import DocumentError, is_list, is_object, parse_document
from windlass.domain.errors import Actor, PermanentError, Reason


class IfExists(StrEnum):
    """What creating does when the object is there already."""

    FAIL = "fail"
    KEEP = "keep"
    REPLACE = "replace"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Names an object; an empty ``api_version`` means the version that discovery prefers."""

    api_version: str = ""
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name} in {self.namespace}"


@dataclass(frozen=True, kw_only=True)
class CreateObject:
    """Create; ``REPLACE`` puts the given object in the place of one that exists: fields it lacks are removed."""

    object: Mapping[str, Any] = field(repr=False)
    target: Target
    if_exists: IfExists


@dataclass(frozen=True, kw_only=True)
class DeleteObject:
    """Delete; absent is fine. ``Foreground`` is waited for."""

    target: Target
    propagation: Literal["Foreground", "Background", "Orphan"]


@dataclass(frozen=True, kw_only=True)
class PatchObject:
    """Patch; ``subresource`` is empty or for example ``status``."""

    target: Target
    patch: Any = field(repr=False)
    type: Literal["json", "merge"]
    subresource: str = ""
    ignore_missing: bool = False


type Operation = CreateObject | DeleteObject | PatchObject

_CREATE: Final = {
    "Create": IfExists.FAIL,
    "CreateIfNotExists": IfExists.KEEP,
    "CreateOrUpdate": IfExists.REPLACE,
}
_DELETE: Final[Mapping[str, Literal["Foreground", "Background", "Orphan"]]] = {
    "Delete": "Foreground",
    "DeleteInBackground": "Background",
    "DeleteNonCascading": "Orphan",
}
_KNOWN: Final = (*_CREATE, *_DELETE, "MergePatch", "JSONPatch")
_JSON_PATCH_NEEDS: Final = {
    "add": ("value",),
    "replace": ("value",),
    "test": ("value",),
    "remove": (),
    "move": ("from",),
    "copy": ("from",),
}


def parse_operations(documents: Sequence[Mapping[str, Any]], *, namespace: str, instance: str) -> tuple[Operation, ...]:
    """Read all operations and bind them to one Application.

    Args:
        documents: what the hook wrote, one mapping per operation.
        namespace: the Application's namespace, where everything happens.
        instance: the Application's name; ``<instance>-`` is put before every object name that lacks it.

    Raises:
        PermanentError: API_REJECTED for a malformed operation, FORBIDDEN for one out of bounds; names the first bad
            one by its place, operation and field, never by its content.
    """
    return tuple(
        _Reader(place, document, namespace=namespace, instance=instance).read()
        for place, document in enumerate(documents, start=1)
    )


class _Reader:
    """Reads one operation; holds what its errors name."""

    def __init__(self, place: int, document: Mapping[str, Any], *, namespace: str, instance: str) -> None:
        self._document = document
        self._namespace = namespace
        self._prefix = f"{instance}-"
        self._where = f"operation {place}"

    def read(self) -> Operation:
        name = self._text("operation", required=True)
        if name in _KNOWN or name == "JQPatch":
            self._where = f"{self._where} ({name})"
        if name in _CREATE:
            return self._create(_CREATE[name])
        if name in _DELETE:
            self._no_subresource()
            return DeleteObject(target=self._target(), propagation=_DELETE[name])
        if name == "MergePatch":
            return self._patch("merge", self._object("mergePatch"))
        if name == "JSONPatch":
            return self._patch("json", self._json_patch())
        if name == "JQPatch":
            self._refuse("operation", "not served by this version of Windlass, use MergePatch or JSONPatch")
        return self._refuse("operation", f"not known, expected one of {', '.join(_KNOWN)}")

    def _create(self, if_exists: IfExists) -> CreateObject:
        self._no_subresource()
        given = self._object("object")
        metadata = given.get("metadata")
        if not is_object(metadata):
            self._refuse("object.metadata", "expected an object")
        api_version = _text_in(given, "apiVersion") or self._refuse("object.apiVersion", "expected text")
        kind = _text_in(given, "kind") or self._refuse("object.kind", "expected text")
        self._check_namespace("object.metadata.namespace", metadata.get("namespace"))
        bound = {**metadata, "namespace": self._namespace}
        name = _text_in(metadata, "name")
        generated = _text_in(metadata, "generateName")
        if name:
            bound["name"] = self._prefixed(name)
        elif generated and if_exists is IfExists.FAIL:
            bound["generateName"] = self._prefixed(generated)
        else:
            self._refuse("object.metadata.name", "expected text")
        target = Target(
            api_version=api_version,
            kind=kind,
            namespace=self._namespace,
            name=bound.get("name", "") or bound["generateName"],
        )
        return CreateObject(object={**given, "metadata": bound}, target=target, if_exists=if_exists)

    def _patch(self, patch_type: Literal["json", "merge"], patch: Any) -> PatchObject:
        return PatchObject(
            target=self._target(),
            patch=patch,
            type=patch_type,
            subresource=self._text("subresource").strip("/"),  # both spellings are found: `status` and `/status`
            ignore_missing=self._flag("ignoreMissingObject"),
        )

    def _target(self) -> Target:
        self._check_namespace("namespace", self._document.get("namespace"))
        return Target(
            api_version=self._text("apiVersion"),
            kind=self._text("kind", required=True),
            namespace=self._namespace,
            name=self._prefixed(self._text("name", required=True)),
        )

    def _json_patch(self) -> list[dict[str, Any]]:
        items = self._value("jsonPatch")
        if not is_list(items):
            self._refuse("jsonPatch", "expected a list, or text that holds one as JSON or YAML")
        for index, item in enumerate(items):
            where = f"jsonPatch[{index}]"
            if not is_object(item):
                self._refuse(where, "expected an object with op and path")
            needs = _JSON_PATCH_NEEDS.get(_text_in(item, "op"))
            if needs is None:
                self._refuse(f"{where}.op", f"expected one of {', '.join(_JSON_PATCH_NEEDS)}")
            if not isinstance(item.get("path"), str):
                self._refuse(f"{where}.path", "expected text")
            # A `remove` without a value is fine by RFC 6902; the original protocol's schema refuses it.
            for key in needs:
                if key not in item:
                    self._refuse(f"{where}.{key}", "missing")
        return items

    def _object(self, key: str) -> dict[str, Any]:
        value = self._value(key)
        if not is_object(value):
            self._refuse(key, "expected an object, or text that holds one as JSON or YAML")
        return value

    def _value(self, key: str) -> Any:
        value = self._document.get(key)
        if not isinstance(value, str):
            return value
        try:
            return parse_document(value)
        except DocumentError as error:
            self._refuse(key, f"neither JSON nor YAML at {error.position}")

    def _text(self, key: str, *, required: bool = False) -> str:
        value = self._document.get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or (required and not value):
            self._refuse(key, "expected text")
        return value

    def _flag(self, key: str) -> bool:
        value = self._document.get(key, False)
        if not isinstance(value, bool):
            self._refuse(key, "expected true or false")
        return value

    def _no_subresource(self) -> None:
        if self._document.get("subresource"):
            self._refuse("subresource", "served for MergePatch and JSONPatch only")

    def _check_namespace(self, key: str, namespace: Any) -> None:
        if namespace in (None, "", self._namespace):
            return
        raise PermanentError(
            Reason.FORBIDDEN,
            f"{self._where}: {key}: another namespace than the package's own ({self._namespace})",
            hint="leave the namespace out: a package's hooks act in its own namespace only",
            actor=Actor.AUTHOR,
        )

    def _prefixed(self, name: str) -> str:
        return name if name.startswith(self._prefix) else self._prefix + name

    def _refuse(self, key: str, problem: str) -> NoReturn:
        raise PermanentError(
            Reason.API_REJECTED,
            f"{self._where}: {key}: {problem}",
            hint="correct what the hook writes to KUBERNETES_PATCH_PATH; none of its operations was executed",
            actor=Actor.AUTHOR,
        )


def resolved(operation: Operation, *, api_version: str, kind: str) -> Operation:
    """Return ``operation`` with the version and spelling of its kind that discovery gave."""
    target = replace(operation.target, api_version=api_version, kind=kind)
    if isinstance(operation, CreateObject):
        return replace(operation, target=target, object={**operation.object, "apiVersion": api_version, "kind": kind})
    return replace(operation, target=target)


def _text_in(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
