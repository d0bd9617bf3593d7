"""Which primary a secondary resource belongs to: two annotations that say so, two labels to select by.

The equivalent of Kubernetes' ownerReferences for an owner that is no Kubernetes object (contract: "Labels in secondary
objects"). Annotations are the truth: a key may hold ``/`` and have more than 63 characters, which no label value may.
The labels hold the same where it fits and a shortened form with a hash where it does not; they only select.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.ports.entities import Document

OWNER_KEY_LABEL: Final = "kumori/ownerkey"
OWNER_KIND_LABEL: Final = "kumori/ownerkind"
OWNER_KEY_ANNOTATION: Final = "kumori/ownerkey"
OWNER_KIND_ANNOTATION: Final = "kumori/ownerkind"

_LABEL_MAX: Final = 63
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DIGEST: Final = 10  # hexadecimal digits: two keys of one kind with the same label cost a wasted look, nothing else


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A primary resource, as its secondaries name it."""

    kind: str
    key: str


def label_value(text: str) -> str:
    """Return ``text`` if it is a legal label value, else its legal characters, shortened, and a hash."""
    if _LABEL.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[: _LABEL_MAX - _DIGEST - 1].rstrip("-")
    return f"{readable}-{digest}" if readable else digest


def owner_labels(owner: Owner) -> dict[str, str]:
    """Return the labels of a secondary of ``owner``."""
    return {OWNER_KEY_LABEL: label_value(owner.key), OWNER_KIND_LABEL: label_value(owner.kind)}


def owner_annotations(owner: Owner) -> dict[str, str]:
    """Return the annotations of a secondary of ``owner``."""
    return {OWNER_KEY_ANNOTATION: owner.key, OWNER_KIND_ANNOTATION: owner.kind}


def owned(document: Document, owner: Owner) -> Document:
    """Return a copy of ``document`` (a Kubernetes object or an entity) with the labels and annotations of ``owner``."""
    metadata = dict(_mapping(document.get("metadata")))
    metadata["labels"] = {**_mapping(metadata.get("labels")), **owner_labels(owner)}
    metadata["annotations"] = {**_mapping(metadata.get("annotations")), **owner_annotations(owner)}
    return {**document, "metadata": metadata}


def selector(kind: str, key: str = "") -> str:
    """Return the label selector of all secondaries of ``kind``, or of those of one primary.

    What it selects may belong to another: `owner_of` decides.
    """
    labels = owner_labels(Owner(kind=kind, key=key))
    if not key:
        del labels[OWNER_KEY_LABEL]
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def owner_of(document: Document) -> Owner | None:
    """Return the owner that ``document`` names; None without one.

    An empty or half-filled reference is none.
    """
    annotations = _mapping(_mapping(document.get("metadata")).get("annotations"))
    key, kind = annotations.get(OWNER_KEY_ANNOTATION), annotations.get(OWNER_KIND_ANNOTATION)
    return Owner(kind=kind, key=key) if isinstance(key, str) and isinstance(kind, str) and key and kind else None


def decompose(obj: object) -> tuple[Document, Owner | None]:
    """Return a Kubernetes object and its owner (contract: DecomposeKubeSecondaryResource).

    Raises:
        PermanentError: VALIDATION_FAILED, ``obj`` is no Kubernetes object: no mapping, or without apiVersion, kind and
            metadata.name.
    """
    document = _mapping(obj)
    name = _mapping(document.get("metadata")).get("name")
    if not (document.get("apiVersion") and document.get("kind") and name):
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"a {type(obj).__name__} without apiVersion, kind and metadata.name is no Kubernetes object",
            hint="pass what the informer handed over",
            actor=Actor.AUTHOR,
        )
    return dict(document), owner_of(dict(document))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
