"""Keeps objects from going before their resources have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.framework.errors import InvalidConfigError
from windlass.framework.objects import metadata, self_link, uid, under_deletion
from windlass.ports.kube import Object, ObjectRef
from windlass.ports.operators import FinalizerAccess

PREFIX: Final = "operatorkit.giantswarm.io"
"""As operatorkit has it, so that an operator that moves over releases what its forerunner held."""

TRIES: Final = 5
"""Conflicts with other writers before the error is told; the next event or resync tries again."""


REMEMBERED: Final = 10_000
"""Released objects whose late events are known for what they are; one forgotten is deleted once more, to no effect."""


class Finalizers:
    """One finalizer on the objects of one framework.

    Args:
        kube: reads and patches the objects.
        name: of the framework; its finalizer is ``operatorkit.giantswarm.io/<name>``.
        finalizer: the whole text, ``domain/word``, in place of that.

    Raises:
        InvalidConfigError: there is neither a name nor a finalizer.
    """

    def __init__(self, kube: FinalizerAccess, *, name: str, finalizer: str = "") -> None:
        if not (name or finalizer):
            raise InvalidConfigError("finalizers need the framework's name")
        self._kube = kube
        self.finalizer = finalizer or f"{PREFIX}/{name}"
        self._released: dict[str, None] = {}

    def held(self, obj: Any) -> bool:
        """Say whether the object has the finalizer, as far as we know.

        The event of an object's going shows it as it was before its last finalizer was taken away, and so does an older
        event that waited meanwhile: what this process released is not held, whatever the picture says.
        """
        return self.finalizer in _finalizers(obj) and uid(obj) not in self._released

    async def hold(self, obj: Any) -> bool:
        """Make sure that the object has the finalizer before anything is made for it.

        Returns:
            True when it had it: go on. False when this round ends here: it was added and the update that this causes
            carries on, or the object is under deletion or gone.

        Raises:
            WindlassError: the API server refused or did not answer.
        """
        if under_deletion(obj):
            return False
        if self.finalizer in _finalizers(obj):
            return True
        self._released.pop(uid(obj), None)
        await self._change(obj, add=True)
        return False

    async def release(self, obj: Any) -> bool:
        """Take the finalizer away; say whether it was there. An object that is gone is fine.

        Raises:
            WindlassError: the API server refused or did not answer.
        """
        changed = await self._change(obj, add=False)
        self._released[uid(obj)] = None
        if len(self._released) > REMEMBERED:
            del self._released[next(iter(self._released))]
        return changed

    async def _change(self, obj: Any, *, add: bool) -> bool:
        """Write the list against the version it was read at: no other writer's finalizer is lost or brought back."""
        ref = _reference(obj)
        known: Any = obj
        for attempt in range(1, TRIES + 1):
            present = _finalizers(known)
            if (self.finalizer in present) is add:
                return False
            if add and under_deletion(known):
                return False  # the API server takes no new finalizer now
            wanted = [*present, self.finalizer] if add else [one for one in present if one != self.finalizer]
            seen = metadata(known) or {}
            patch: Object = {
                "metadata": {
                    "uid": seen.get("uid"),
                    "resourceVersion": seen.get("resourceVersion"),
                    "finalizers": wanted,
                }
            }
            try:
                return await self._kube.patch(ref, patch, kind="merge") is not None
            except TransientError as error:
                if error.reason is not Reason.API_CONFLICT or attempt == TRIES:
                    raise
            known = await self._kube.get(ref)
            if known is None or uid(known) != uid(obj):
                return False
        return False


def _finalizers(obj: Any) -> list[str]:
    return list(cast("Sequence[str]", (metadata(obj) or {}).get("finalizers") or ()))


def _reference(obj: Any) -> ObjectRef:
    found = metadata(obj)
    if found is None or not found.get("name"):
        raise PermanentError(Reason.API_REJECTED, f"an object without a name ({self_link(obj)}) has no finalizers")
    document = cast("Mapping[str, Any]", obj)
    return ObjectRef(
        api_version=str(document.get("apiVersion") or ""),
        kind=str(document.get("kind") or ""),
        namespace=str(found.get("namespace") or ""),
        name=str(found["name"]),
    )
