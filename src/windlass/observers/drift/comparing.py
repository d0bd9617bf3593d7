"""Compares the objects of one release with its manifest and tells the package's lifecycle what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from itertools import islice
from typing import Final

import structlog

from windlass.activities.drift import compare, foreign
from windlass.contracts.lifecycle import ReleaseDrifted
from windlass.domain.drift import comparison as drift
from windlass.domain.drift.comparison import DIFFERENCES_KEPT, Change, Difference
from windlass.domain.errors import WindlassError
from windlass.domain.lifecycle.releases import DEPLOYED
from windlass.observers.drift.owners import Owners, kind_of
from windlass.observers.drift.package import ELSEWHERE, INTERVAL, RETELL, Looked
from windlass.observers.drift.watches import MetadataWatches
from windlass.ports.helm import Helm, Manifest
from windlass.ports.kube import Kube, ObjectRef
from windlass.ports.targets import Role, Targets
from windlass.runtime.packages import PackageLifecycles

AT_ONCE: Final = 100
"""Objects compared in one turn. What is left of a larger release waits for another turn behind other packages."""

KINDS_EACH: Final = 64
"""Kinds that are watched because of one package. A release record that somebody has edited may name thousands."""

SOON: Final = 0.01
"""Seconds until a large release takes its next turn."""

_log = structlog.stdlib.get_logger(__name__)


class Comparing:
    """Makes comparisons for the drift monitor.

    Args:
        targets: objects are compared as their package, which needs the right to patch, although nothing is changed.
        helm: reads stored manifests.
        lifecycles: takes the signals.
        owners: is told which objects a release has.
        watches: follow the kinds of those objects.
    """

    def __init__(
        self, *, targets: Targets, helm: Helm, lifecycles: PackageLifecycles, owners: Owners, watches: MetadataWatches
    ) -> None:
        self._targets = targets
        self._helm = helm
        self._lifecycles = lifecycles
        self._owners = owners
        self._watches = watches

    def own(self, package: Looked, expected: frozenset[ObjectRef]) -> None:
        """Take note of which objects belong to the package's release."""
        left = self._owners.replace(package.key, package.expected, expected)
        package.expected = expected
        self._watches.forget(left)

    async def look(self, package: Looked, dirty: Collection[ObjectRef], *, whole: bool) -> float:
        """Compare what is to be compared and tell the lifecycle what is new.

        Objects that could not be compared, or that are left for another turn, are in ``package.dirty`` afterwards.

        Returns:
            Seconds until the package is to be looked at again; 0 if nothing is left to do.

        Raises:
            WindlassError: the manifest cannot be read, or the lifecycle cannot be told.
        """
        manifest = await self._helm.manifest(package.release)
        if package.dropped:
            return 0.0
        if manifest is None and whole and package.resting:
            await self._tell(package, [replace(foreign(package.release), change=Change.ABSENT)])
            return RETELL
        if manifest is None or manifest.release.status != DEPLOYED:
            # An operation is under way, or failed. Its end changes the status; if it is not ours, some object.
            return package.later() if whole else 0.0
        if manifest.release.revision != package.revision:
            return await self._unknown_revision(package, manifest)
        objects = manifest.objects
        watched = package.release.target.cluster is None
        if watched:
            self.own(package, frozenset(objects))
            self._watches.follow(islice(dict.fromkeys(map(kind_of, objects)), KINDS_EACH))
        package.found = {ref: found for ref, found in package.found.items() if ref in objects}
        wanted = [ref for ref in objects if whole or ref in dirty]
        package.dirty.update(wanted[AT_ONCE:])
        if whole:
            package.whole = False
        async with self._targets.acting(package.release.target) as acting:
            kube = await acting.kube(Role.DRIFT)
            failed = [ref for ref in wanted[:AT_ONCE] if not await self._compared(package, kube, ref, manifest)]
        if package.dropped or package.revision != manifest.release.revision:
            return 0.0
        if len(wanted) > AT_ONCE:
            return SOON
        await self._tell(package, [one for found in package.found.values() for one in found])
        if not failed:
            package.failures = 0
            package.whole = package.whole or not watched
            return 0.0 if watched else ELSEWHERE
        package.dirty.update(failed)
        return package.later()

    async def _compared(self, package: Looked, kube: Kube, ref: ObjectRef, manifest: Manifest) -> bool:
        """Compare one object; return whether that was possible."""
        if package.dropped:
            return True
        try:
            compared = await compare(kube, ref, manifest.objects[ref], package.rules)
        except WindlassError as error:
            _log.warning("object not compared", object=str(ref), reason=error.reason.value, error=str(error))
            return False
        if compared.live is not None and package.release.target.cluster is None:
            self._watches.read(ref, compared.live)
        if compared.differences:
            package.found[ref] = compared.differences
        else:
            package.found.pop(ref, None)
        return True

    async def _unknown_revision(self, package: Looked, manifest: Manifest) -> float:
        """Tell of a revision that somebody else has made; one of ours is in the status soon."""
        revision = manifest.release.revision
        if package.resting and package.foreign == revision:
            await self._tell(package, [foreign(package.release)])
            return RETELL
        package.foreign = revision if package.resting else 0
        return INTERVAL if package.resting else 0.0

    async def _tell(self, package: Looked, differences: list[Difference]) -> None:
        digest = drift.digest(differences)
        # A field that was put back and is changed again differs in the same way: it is the object that is another.
        marks = sorted(package.found) if package.release.target.cluster is None else ()
        said = (digest, *(self._watches.mark(ref) for ref in marks))
        now = asyncio.get_running_loop().time()
        if digest == package.known or (said == package.told and now < package.told_at + RETELL):
            return
        objects = dict.fromkeys(replace(one, path="", manager="", change=_named(one)) for one in sorted(differences))
        message = ReleaseDrifted(revision=package.revision, objects=tuple(objects)[:DIFFERENCES_KEPT])
        await self._lifecycles.release_drifted(package.key, message)
        package.told, package.told_at = said, now
        _log.info("drift told", package=package.key.package_id, objects=len(objects), differences=len(differences))


def _named(one: Difference) -> Change:
    return Change.ABSENT if one.change is Change.ABSENT else Change.CHANGED
