"""The objects of packages as this process last saw them, so that the steps of one pass read and write them once.

Nothing here is believed longer than it holds: what is remembered is used only where the workflow names the very state
that it asks for (uid, generation, digest of the settings), and a write carries the resourceVersion that was seen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from windlass.activities.inputs import Inputs, inputs_of, object_ref
from windlass.activities.references import References
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import PackageKey
from windlass.ports.kube import Kube, Object, ObjectRef

MARKS_KEPT: Final = 5000
"""Objects whose resourceVersion is remembered."""

INPUTS_KEPT: Final = 500
"""Objects remembered with all that they reference, from the look at them until their release is made."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Which state of an object was seen, and its finalizers in it."""

    uid: str
    resource_version: str
    finalizers: tuple[str, ...] = ()


type Write = Callable[[Mark], Awaitable[Object | None]]
"""Writes with the mark's resourceVersion as precondition; returns the object as written, None if nothing was."""


class PackageObjects:
    """Reads and writes objects of packages.

    Args:
        kube: reads; writes are the callers'.
        references: reads what objects refer to.
        digest_key: keys the digest of settings.
    """

    def __init__(self, kube: Kube, references: References, digest_key: bytes) -> None:
        self._kube = kube
        self._references = references
        self._digest_key = digest_key
        self._marks: OrderedDict[PackageKey, Mark] = OrderedDict()
        self._inputs: OrderedDict[PackageKey, Inputs] = OrderedDict()

    async def look(self, key: PackageKey) -> Inputs | None:
        """Read the object and everything that it references; None if there is no such object."""
        self._inputs.pop(key, None)
        obj = await self._kube.get(object_ref(key))
        if obj is None:
            self._marks.pop(key, None)
            return None
        package = parse_package(key.kind, obj)
        inputs = await inputs_of(
            package, repositories=self._kube.get, referenced=partial(self._references.get, package)
        )
        metadata = inputs.object.metadata
        if metadata.resource_version:
            mark = Mark(
                uid=metadata.uid, resource_version=metadata.resource_version, finalizers=tuple(metadata.finalizers)
            )
            _put(self._marks, key, mark, MARKS_KEPT)
        _put(self._inputs, key, inputs, INPUTS_KEPT)
        return inputs

    async def home_ends(self, key: PackageKey) -> bool:
        """Say whether the namespace of an Application is being deleted, and everything in it with it."""
        if key.cluster_wide:
            return False
        namespace = await self._kube.get(ObjectRef(api_version="v1", kind="Namespace", name=key.home))
        return namespace is None or bool(namespace["metadata"].get("deletionTimestamp"))

    async def inputs(self, key: PackageKey, uid: str, settings: str) -> Inputs:
        """Return the object and what it references: as last seen if it had the settings of this digest, else as it is.

        Raises:
            TransientError: API_CONFLICT, it was replaced by another object.
        """
        seen = self._inputs.get(key)
        if seen is None or seen.object.metadata.uid != uid or seen.settings_digest(self._digest_key) != settings:
            seen = await self.look(key)
        if seen is None or seen.object.metadata.uid != uid:
            raise _replaced(key)
        return seen

    async def settings(self, key: PackageKey, uid: str) -> str:
        """Return the digest of the settings, references resolved, as they are now; empty if that uid is gone."""
        inputs = await self.look(key)
        mine = inputs is not None and inputs.object.metadata.uid == uid
        return inputs.settings_digest(self._digest_key) if inputs is not None and mine else ""

    async def package(self, key: PackageKey, uid: str, generation: int) -> PackageObject:
        """Return the object of a generation, or of a newer one; what was seen of it is forgotten.

        Raises:
            TransientError: API_CONFLICT, it was replaced by another object.
        """
        seen = self._inputs.pop(key, None)
        if seen is not None and (seen.object.metadata.uid, seen.object.metadata.generation) == (uid, generation):
            return seen.object
        obj = await self._kube.get(object_ref(key))
        if obj is None or obj["metadata"]["uid"] != uid:
            raise _replaced(key)
        return parse_package(key.kind, obj)

    async def write(self, key: PackageKey, uid: str, write: Write) -> bool:
        """Write to the object of this uid; return whether it is there.

        The first try has the state that was last seen here as its precondition. Where that does not hold any more, the
        object is read.

        Raises:
            TransientError: API_CONFLICT, somebody else keeps writing; whatever ``write`` raises.
        """
        mark = self._marks.pop(key, None)
        if mark is not None and mark.uid == uid and await self._wrote(key, mark, write):
            return True
        obj = await self._kube.get(object_ref(key))
        if obj is None or obj["metadata"]["uid"] != uid:
            return False
        self._note(key, await write(_mark(obj["metadata"])))
        return True

    async def _wrote(self, key: PackageKey, mark: Mark, write: Write) -> bool:
        try:
            written = await write(mark)
        except TransientError as error:
            if error.reason in {Reason.API_CONFLICT, Reason.API_REJECTED}:  # written to, or gone
                return False
            raise
        self._note(key, written)
        return written is not None

    def _note(self, key: PackageKey, written: Object | None) -> None:
        if written is not None:
            _put(self._marks, key, _mark(written["metadata"]), MARKS_KEPT)


def _mark(metadata: Mapping[str, Any]) -> Mark:
    return Mark(
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


def _put[T](kept: OrderedDict[PackageKey, T], key: PackageKey, value: T, limit: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > limit:
        kept.popitem(last=False)


def _replaced(key: PackageKey) -> TransientError:
    return TransientError(Reason.API_CONFLICT, f"{object_ref(key)} was replaced by another object")
