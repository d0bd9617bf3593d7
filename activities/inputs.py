"""What an object says together with what it references: read in one place, for activities and the watcher alike."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.contracts.objects import PackageObject, SeenStatus, ValuesReference
from windlass.contracts.repositories import PackageRepository
from windlass.domain.digests import seen_digest, settings_digest
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.domain.packages.model import Values
from windlass.domain.packages.wanted import is_floating
from windlass.domain.text.documents import DocumentError, DocumentTooLargeError, parse_document
from windlass.domain.text.tree import merge
from windlass.ports.kube import Object, ObjectRef

IGNORED_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One entry of ``spec.valuesFrom`` and what is stored under its key, None if the object or the key is missing.

    The text of a Secret is base64, as stored: a look at it never fails. ``problem`` is why the package's account could
    not read it; it is a failure of the step that needs the text, and holds no removal up.
    """

    entry: ValuesReference
    text: str | None
    problem: WindlassError | None = None


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One consistent enough look at a package's object and everything it references."""

    object: PackageObject
    references: tuple[Reference, ...]
    repository: PackageRepository | None
    served: bool = True
    """Whether the repository serves the package's namespace."""

    def settings_digest(self, key: bytes) -> str:
        """Return the keyed digest of the settings and of every referenced text."""
        texts: Values = {
            f"{index} {_where(reference.entry)} {reference.entry.target_path or ''}": reference.text
            for index, reference in enumerate(self.references)
        }
        if (version := self.object.spec.settings_version) is not None:
            texts["version"] = version
        return settings_digest(self.object.spec.settings, texts, key)

    def seen(self, key: bytes) -> SeenStatus:
        """Return the mark by which the watcher knows that all of this has been taken notice of."""
        metadata = self.object.metadata
        annotations = {k: v for k, v in metadata.annotations.items() if k not in IGNORED_ANNOTATIONS}
        sources: dict[str, dict[str, str]] = {}
        for reference in self.references:
            if reference.text is not None:
                entry = reference.entry
                sources.setdefault(f"{entry.kind}/{entry.name}", {})[entry.key] = reference.text
        repository = self.repository
        repositories = (
            {repository.metadata.name: {**repository.spec.to_object(), **self._scanned}} if repository else {}
        )
        return SeenStatus(
            uid=metadata.uid,
            generation=metadata.generation,
            deletion_timestamp=metadata.deletion_timestamp,
            digest=seen_digest(annotations, sources, repositories, key),
        )

    @property
    def offer(self) -> str:
        """What changes whenever the version, if it is a range, may come to something else; empty if it cannot."""
        package = self.object.spec.package
        repository = self.repository if self.served else None
        return repository.offer(package.name) if repository and is_floating(package.version) else ""

    @property
    def hooks_allowed(self) -> bool:
        """Whether the package may bring programs of its own."""
        return self.repository is None or self.repository.spec.hooks == "Allow"

    @property
    def _scanned(self) -> dict[str, str]:
        """What the last scan says of the repository's Secrets, and of the package."""
        status = self.repository.status if self.repository else None
        seen = status.seen.digest if status and status.seen else ""
        refused = "" if self.served else "true"
        found = {"windlass.dev/seen": seen, "windlass.dev/offer": self.offer, "windlass.dev/refused": refused}
        return {name: digest for name, digest in found.items() if digest}

    def settings(self) -> Values:
        """Return ``valuesFrom`` in order, then ``spec.settings``, merged; later wins.

        Raises:
            TransientError: VALUES_SOURCE_NOT_FOUND, a reference that is not optional is missing; it may still come.
            PermanentError: VALIDATION_FAILED, a referenced text is not a YAML mapping.
        """
        merged: Values = {}
        for reference in self.references:
            if reference.problem is not None:
                raise reference.problem
            if reference.text is None:
                if reference.entry.optional:
                    continue
                raise TransientError(
                    Reason.VALUES_SOURCE_NOT_FOUND,
                    f"spec.valuesFrom: {_where(reference.entry)} does not exist",
                    hint="create it, or set `optional: true`",
                )
            merged = merge(merged, _values_of(reference.entry, _decoded(reference)))
        return merge(merged, self.object.spec.settings)

    def concealed(self) -> Values:
        """Return the part of the settings that came from Secrets: what errors must never show."""
        merged: Values = {}
        for reference in self.references:
            if reference.entry.kind == "Secret" and reference.text is not None:
                merged = merge(merged, _values_of(reference.entry, _decoded(reference)))
        return merged


def object_ref(key: PackageKey) -> ObjectRef:
    """Return the reference of the package's own object."""
    return ObjectRef(api_version=API_VERSION, kind=key.kind.value, namespace=key.namespace, name=key.name)


type Lookup = Callable[[ObjectRef], Awaitable[Object | None]]
"""Finds one object: `Kube.get`, or a cache that a watch keeps fresh."""

UNREADABLE: Final = frozenset({Reason.FORBIDDEN, Reason.IDENTITY_MISSING, Reason.TARGET_REFUSED})
"""Failures to read a reference that say something about the package; others are the cluster's and pass through."""


async def inputs_of(package: PackageObject, *, repositories: Lookup, referenced: Lookup) -> Inputs:
    """Look up what the object of a package refers to.

    Args:
        package: the object.
        repositories: finds PackageRepositories.
        referenced: finds ConfigMaps and Secrets, as the package's account.
    """
    found: dict[ObjectRef, Object | WindlassError | None] = {}
    references: list[Reference] = []
    for entry in package.spec.values_from:
        ref = ObjectRef(api_version="v1", kind=entry.kind, namespace=package.home, name=entry.name)
        if ref not in found:
            found[ref] = await _read(referenced, ref)
        obj = found[ref]
        if isinstance(obj, WindlassError):
            references.append(Reference(entry=entry, text=None, problem=obj))
        else:
            references.append(Reference(entry=entry, text=_text(entry, obj)))
    repository = await read_repository(repositories, package.spec.package.repository)
    return Inputs(
        object=package,
        references=tuple(references),
        repository=repository,
        served=repository is None or await is_served(repositories, repository, package.home),
    )


async def _read(referenced: Lookup, ref: ObjectRef) -> Object | WindlassError | None:
    try:
        return await referenced(ref)
    except WindlassError as error:
        if error.reason not in UNREADABLE:
            raise
        return error


async def read_repository(lookup: Lookup, name: str) -> PackageRepository | None:
    """Look a PackageRepository up; None if there is none of that name."""
    obj = await lookup(ObjectRef(api_version=API_VERSION, kind="PackageRepository", name=name))
    return PackageRepository.model_validate(obj) if obj else None


async def is_served(lookup: Lookup, repository: PackageRepository, namespace: str) -> bool:
    """Say whether packages of ``namespace`` may use ``repository``; its labels are looked up if they matter."""
    audience = repository.spec.audience
    if not audience.asks_labels(namespace):
        return audience.serves(namespace, {})
    found = await lookup(ObjectRef(api_version="v1", kind="Namespace", name=namespace))
    return found is not None and audience.serves(namespace, found["metadata"].get("labels") or {})


def _text(entry: ValuesReference, obj: Object | None) -> str | None:
    if obj is None:
        return None
    data = cast("dict[str, Any]", obj.get("data") or {})
    return data.get(entry.key)


def _decoded(reference: Reference) -> str:
    """Return the text as a person wrote it; what a Secret holds is decoded here, where a fault of it is told.

    Raises:
        PermanentError: VALIDATION_FAILED, it is not UTF-8.
    """
    stored = reference.text or ""
    if reference.entry.kind == "ConfigMap":
        return stored
    try:
        return base64.b64decode(stored, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"spec.valuesFrom: {_where(reference.entry)} is not UTF-8 text",
            hint="store settings as YAML text",
            actor=Actor.USER,
        ) from None


def _values_of(entry: ValuesReference, text: str) -> Values:
    if entry.target_path is not None:
        value: Any = text
        for part in reversed(entry.target_path.split(".")):
            value = {part: value}
        return cast("Values", value)
    try:
        document = parse_document(text)
    except DocumentTooLargeError as error:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"spec.valuesFrom: {_where(entry)} {error.problem}",
            hint="make it smaller, or spread it over several keys",
        ) from None
    except DocumentError as error:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"spec.valuesFrom: {_where(entry)} is not YAML: {error.message}",
            hint="correct the text at that place",
        ) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"spec.valuesFrom: {_where(entry)} must hold a YAML mapping of settings",
            hint="write `name: value` lines, or set `targetPath` to take the text as one string",
        )
    return cast("Values", document)


def _where(entry: ValuesReference) -> str:
    return f"{entry.kind} {entry.name}, key {entry.key}"
