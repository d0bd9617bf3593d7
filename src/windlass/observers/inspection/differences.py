"""What is wanted of a package against what is there, or against the last release."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml

from windlass.activities.drift import compare
from windlass.activities.inputs import Inputs
from windlass.adapters.helm.presence import marked
from windlass.adapters.kube.permissions import refusal
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import PermanentError, Reason
from windlass.observers.inspection.masking import masked
from windlass.observers.inspection.rendering import rendered
from windlass.observers.inspection.surroundings import Surroundings
from windlass.observers.inspection.unified import unified
from windlass.ports.kube import Object, ObjectRef

_NOISE: Final = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"})

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Holds the whole object once more, a Secret's texts among it."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One object as it is and as it would be; None where it does not exist.

    ``approximate`` says why the API server would not say what the object would be.
    """

    ref: ObjectRef
    before: Object | None
    after: Object | None
    approximate: str = ""

    @property
    def change(self) -> str:
        """``created``, ``deleted``, ``changed``, or empty."""
        if self.before is None or self.after is None:
            return "created" if self.before is None else "deleted"
        return "changed" if _clean(self.before) != _clean(self.after) else ""


async def differences(
    around: Surroundings, package: PackageObject, inputs: Inputs, *, against_release: bool
) -> list[dict[str, Any]]:
    """Return what the lifecycle would change now, an entry for each object; ``diff`` is for people.

    Args:
        around: where to read.
        package: whose.
        inputs: what its object refers to.
        against_release: compare with the newest stored release instead of what is there.

    Raises:
        WindlassError: as `rendered`, or an object cannot be read.
    """
    found = await rendered(around, package, inputs)
    release = around.release(package)
    expected = {ref: marked(obj, release) for ref, obj in found.objects.items()}
    stored = await _stored(around, package)
    pairs = _released(expected, stored) if against_release else await _live(around, package, expected, stored)
    hidden = _Hidden(key=secrets.token_bytes(16), concealed=inputs.concealed(), texts=found.secrets)
    changed = [pair for pair in sorted(pairs, key=lambda pair: pair.ref) if pair.change]
    # Writing out objects of a megabyte takes seconds: not on the event loop, which renews Leases and heartbeats.
    return await asyncio.to_thread(lambda: [_told(pair, hidden) for pair in changed])


async def _live(
    around: Surroundings, package: PackageObject, expected: dict[ObjectRef, Object], stored: dict[ObjectRef, Object]
) -> list[Pair]:
    pairs: list[Pair] = []
    target = around.release(package).target
    async with around.acting(package) as kube:
        for ref, obj in expected.items():
            try:
                compared = await compare(kube, ref, obj)
            except PermanentError as error:
                if error.reason is not Reason.FORBIDDEN:
                    raise
                # All that is forbidden, not the first object only.
                raise await refusal(kube, expected, target, "reading what is there") or error from None
            after = obj if compared.live is None else compared.wanted
            # What the API server says about a Secret may quote it.
            said = (
                "the API server refuses the Secret" if compared.refused and ref.kind == "Secret" else compared.refused
            )
            pairs.append(Pair(ref=ref, before=compared.live, after=after, approximate=said))
        for ref in stored.keys() - expected.keys():
            before = await kube.get(ref)
            if before is not None:
                pairs.append(Pair(ref=ref, before=before, after=None))
    return pairs


def _released(expected: dict[ObjectRef, Object], stored: dict[ObjectRef, Object]) -> list[Pair]:
    refs = expected.keys() | stored.keys()
    return [Pair(ref=ref, before=stored.get(ref), after=expected.get(ref)) for ref in refs]


async def _stored(around: Surroundings, package: PackageObject) -> dict[ObjectRef, Object]:
    """Return the objects of the newest stored release."""
    found = await around.helm.manifest(around.release(package))
    return dict(found.objects) if found else {}


@dataclass(frozen=True, kw_only=True)
class _Hidden:
    """What is hidden: texts of Secrets as hashes under ``key``, others by what they are."""

    key: bytes
    concealed: dict[str, Any]
    texts: frozenset[str]


def _told(pair: Pair, hidden: _Hidden) -> dict[str, Any]:
    """Return one difference as programs get it; ``diff`` is what people see."""

    def text(obj: Object | None) -> list[str]:
        if obj is None:
            return []
        shown = _shown(_clean(obj), hidden)
        return yaml.safe_dump(shown, allow_unicode=True, width=120).splitlines()

    ref = pair.ref
    before, after = text(pair.before), text(pair.after)
    lines = unified(before, after, f"{ref} is", f"{ref} wanted")
    if not lines:
        lines = [f"--- {ref}", "differs only in what is hidden"]
    if pair.approximate:
        lines.append(f"# approximate: {pair.approximate}")
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "change": pair.change,
        "diff": "\n".join(lines),
    }


def _clean(obj: Object) -> Object:
    """Leave out what the API server keeps for itself."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _NOISE}
    annotations: dict[str, Any] = kept.get("annotations") or {}
    if _APPLIED in annotations:
        kept["annotations"] = {key: value for key, value in annotations.items() if key != _APPLIED}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": kept}


def _shown(obj: Object, hidden: _Hidden) -> Object:
    """Return what may be seen of an object: a Secret's texts are hashes, which nobody can try texts out on."""
    shown = masked(obj, hidden.concealed, hidden.texts)
    for part in ("data", "stringData"):
        if obj.get("kind") == "Secret" and isinstance(obj.get(part), dict):
            texts = cast("dict[str, Any]", obj[part])
            shown[part] = {name: _hash(str(value), hidden.key) for name, value in texts.items()}
    return shown


def _hash(text: str, key: bytes) -> str:
    return f"hash {hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:8]}"
