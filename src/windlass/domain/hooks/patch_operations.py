"""Object operations that hooks ask for, read into types and kept within their package's bounds.

The operations and their fields are those of the hook protocol (reference: hooks.md section 6); unknown fields are
dropped, as there. The bounds of an Application (reference: deckhouse.md section 4) are its own namespace, and names
that start with the instance's name; a Module has none but its hooks' rights. Whether a kind is namespaced is for
discovery to say, not for this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Literal, NoReturn, TypedDict

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import PackageKey
from windlass.domain.text.documents import DocumentError, is_list, is_object, parse_document


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where the hooks of one package may act.

    Attributes:
        namespace: the only namespace, and no cluster-wide kinds; empty for the whole cluster.
        prefix: stands before every object name, and is put there where it is missing.
    """

    namespace: str = ""
    prefix: str = ""


def bounds_of(key: PackageKey, namespace: str) -> Bounds:
    """Return the bounds of a package's hooks (reference: deckhouse.md section 9).

    Args:
        key: the package.
        namespace: of its target.
    """
    return Bounds() if key.cluster_wide else Bounds(namespace=namespace, prefix=f"{key.name}-")


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
        return f"{self.kind}/{self.name}" + (f" in {self.namespace}" if self.namespace else "")


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
    """Patch; ``subresource`` is empty or for example ``status``.

    ``despite_failure`` asks for it also when the hook ends with an error.
    """

    target: Target
    patch: Any = field(repr=False)
    type: Literal["json", "merge"]
    subresource: str = ""
    ignore_missing: bool = False
    despite_failure: bool = False


@dataclass(frozen=True, kw_only=True)
class FilterObject:
    """Put what a jq program makes of the object in its place; fields as those of `PatchObject`."""

    target: Target
    program: str
    subresource: str = ""
    ignore_missing: bool = False
    despite_failure: bool = False


type Operation = CreateObject | DeleteObject | PatchObject | FilterObject

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
_KNOWN: Final = (*_CREATE, *_DELETE, "MergePatch", "JSONPatch", "JQPatch")
_JSON_PATCH_NEEDS: Final = {
    "add": ("value",),
    "replace": ("value",),
    "test": ("value",),
    "remove": (),
    "move": ("from",),
    "copy": ("from",),
}


def parse_operations(documents: Sequence[Mapping[str, Any]], bounds: Bounds) -> tuple[Operation, ...]:
    """Read all operations and bind them to one package.

    Args:
        documents: what the hook wrote, one mapping per operation.
        bounds: where its hooks may act.

    Raises:
        PermanentError: API_REJECTED for a malformed operation, FORBIDDEN for one out of bounds; names the first bad
            one by its place, operation and field, never by its content.
    """
    return tuple(_Reader(place, document, bounds).read() for place, document in enumerate(documents, start=1))


def despite_failure(documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the operations that are meant to happen also when the hook ends with an error."""
    return [document for document in documents if document.get("ignoreHookError") is True]


class _HowToPatch(TypedDict):
    subresource: str
    ignore_missing: bool
    despite_failure: bool


class _Reader:
    """Reads one operation; holds what its errors name."""

    def __init__(self, place: int, document: Mapping[str, Any], bounds: Bounds) -> None:
        self._document = document
        self._bounds = bounds
        self._where = f"operation {place}"

    def read(self) -> Operation:
        name = self._text("operation", required=True)
        if name in _KNOWN:
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
            return FilterObject(
                target=self._target(), program=self._text("jqFilter", required=True), **self._how_to_patch()
            )
        return self._refuse("operation", f"not known, expected one of {', '.join(_KNOWN)}")

    def _create(self, if_exists: IfExists) -> CreateObject:
        self._no_subresource()
        given = self._object("object")
        metadata = given.get("metadata")
        if not is_object(metadata):
            self._refuse("object.metadata", "expected an object")
        api_version = _text_in(given, "apiVersion") or self._refuse("object.apiVersion", "expected text")
        kind = _text_in(given, "kind") or self._refuse("object.kind", "expected text")
        namespace = self._namespace("object.metadata.namespace", metadata.get("namespace"))
        bound = {**metadata, "namespace": namespace} if namespace else {**metadata}
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
            namespace=namespace,
            name=bound.get("name", "") or bound["generateName"],
        )
        return CreateObject(object={**given, "metadata": bound}, target=target, if_exists=if_exists)

    def _patch(self, patch_type: Literal["json", "merge"], patch: Any) -> PatchObject:
        return PatchObject(target=self._target(), patch=patch, type=patch_type, **self._how_to_patch())

    def _how_to_patch(self) -> _HowToPatch:
        return {
            "subresource": self._subresource(),
            "ignore_missing": self._flag("ignoreMissingObject"),
            "despite_failure": self._flag("ignoreHookError"),
        }

    def _subresource(self) -> str:
        return self._text("subresource").strip("/")  # both spellings are found: `status` and `/status`

    def _target(self) -> Target:
        return Target(
            api_version=self._text("apiVersion"),
            kind=self._text("kind", required=True),
            namespace=self._namespace("namespace", self._document.get("namespace")),
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
            self._refuse(key, f"cannot be read as JSON or YAML at {error.position}: {error.problem}")

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
        # The API server takes no POST and no DELETE for what the protocol could name here: it would answer 405.
        if self._document.get("subresource"):
            self._refuse("subresource", "can be patched only: MergePatch, JSONPatch or JQPatch")

    def _namespace(self, key: str, given: Any) -> str:
        own = self._bounds.namespace
        if given in (None, "", own):
            return own
        if not isinstance(given, str):
            self._refuse(key, "expected text")
        if not own:
            return given
        raise PermanentError(
            Reason.FORBIDDEN,
            f"{self._where}: {key}: another namespace than the package's own ({own})",
            hint="leave the namespace out: a package's hooks act in its own namespace only",
            actor=Actor.AUTHOR,
        )

    def _prefixed(self, name: str) -> str:
        prefix = self._bounds.prefix
        return name if name.startswith(prefix) else prefix + name

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
