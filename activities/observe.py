"""Looks at the object and at everything it references, and says what is wanted now."""

from __future__ import annotations

from collections import deque
from typing import Final

from temporalio import activity

from windlass.activities.content import Contents
from windlass.activities.openings import Openings
from windlass.activities.package_objects import PackageObjects
from windlass.activities.references import References
from windlass.contracts.control import control_of
from windlass.contracts.drift import policy_of
from windlass.contracts.objects import PackageObject, SeenStatus, UpgradePolicy
from windlass.contracts.steps import Observation, ObserveRequest, Restored
from windlass.domain.errors import PermanentError
from windlass.domain.ids import ABANDON_ANNOTATION, FINALIZER, PackageKey
from windlass.domain.lifecycle.conditions import Condition, Status, Type
from windlass.domain.lifecycle.policy import Control
from windlass.domain.lifecycle.provenance import Known
from windlass.domain.lifecycle.steps import ATTEMPTS, Desired
from windlass.domain.target import Placement
from windlass.ports.clock import Clock
from windlass.ports.records import Records

BURST_SECONDS: Final = 5.0
"""Packages that are looked at within so many seconds wait for one another."""

TURN_SECONDS: Final = 0.05
"""What one of them takes of two cores, the API server's work for it included."""

USUAL_SECONDS: Final = 1.0
"""Up to here the lifecycle's own delay holds."""

SHOW_MOST: Final = 5.0
"""Seconds after which a step is shown at the latest, however many there are."""


class ObserveActivities:
    """Reads; changes nothing."""

    def __init__(
        self,
        *,
        objects: PackageObjects,
        references: References,
        records: Records,
        contents: Contents,
        openings: Openings,
        clock: Clock,
        digest_key: bytes,
    ) -> None:
        self._references = references
        self._clock = clock
        self._looks: deque[float] = deque()
        self._objects = objects
        self._contents = contents
        self._openings = openings
        self._records = records
        self._digest_key = digest_key

    @activity.defn(name="package.observe")
    async def observe(self, request: ObserveRequest) -> Observation:
        """Return the desired state, and with ``restore`` what outlived an earlier workflow."""
        inputs = await self._objects.look(request.key)
        if inputs is None:
            restored = await self._restored(request, None) if request.restore else None
            return Observation(desired=Desired(), seen=SeenStatus(), restored=restored)
        package = inputs.object
        metadata = package.metadata
        policy = package.spec.upgrade or UpgradePolicy()
        placement = self._placement(package)
        desired = Desired(
            exists=True,
            uid=metadata.uid,
            generation=metadata.generation,
            deleting=metadata.deletion_timestamp is not None,
            abandon=await self._abandoned(request.key, package, placement),
            finalizer=FINALIZER in metadata.finalizers,
            source=package.source,
            settings=inputs.settings_digest(self._digest_key),
            offer=inputs.offer,
            suspended=package.spec.suspend,
            delete_on_disable=package.spec.delete_on_disable,
            on_failure=policy.on_failure,
            attempts=policy.attempts or ATTEMPTS,
            drift=policy_of(package.spec.drift, package.spec.maintenance),
            placement=placement,
            refused=placement is None,
            served=inputs.served,
            hooks_allowed=inputs.hooks_allowed,
        )
        restored = await self._restored(request, package) if request.restore else None
        kept = restored.artifact if restored else None
        pinned = kept.source if kept else request.pinned
        lives = not desired.deleting and not desired.suspended
        artifact = (
            await self._contents.at_hand(inputs.repository, package.source)
            if lives and inputs.served and pinned != package.source
            else None
        )
        if artifact is not None and not self._openings.opened(request.key, artifact):
            artifact = None  # the step that downloads opens it as well
        return Observation(
            desired=desired,
            seen=inputs.seen(self._digest_key),
            restored=restored,
            artifact=artifact,
            placed=placement is not None and self._references.known(placement),
            show_after=self._show_after(),
        )

    def _placement(self, package: PackageObject) -> Placement | None:
        """Return where the package is to be; None if it may not be there, which the step Place reports."""
        try:
            return self._references.placement(package)
        except PermanentError:
            return None

    async def _abandoned(self, key: PackageKey, package: PackageObject, placement: Placement | None) -> bool:
        """Say whether a removal leaves the release alone: somebody says so, or it ends with its namespace anyhow."""
        said = package.metadata.annotations.get(ABANDON_ANNOTATION) == "true"
        if said or package.spec.deletion_policy == "Orphan":
            return True
        if package.metadata.deletion_timestamp is None or (placement and placement.target.cluster is not None):
            return False
        at_home = placement is None or placement.target.namespace == key.home
        return at_home and await self._objects.home_ends(key)

    def _show_after(self) -> float:
        """Return after how many seconds a step is to be shown, 0 for the usual.

        Of a hundred packages changed at once nearly all wait for seconds, and to show each of them takes a workflow
        task and a write: work that makes all of them wait longer.
        """
        now = self._clock.now()
        self._looks.append(now)
        while self._looks[0] < now - BURST_SECONDS:
            self._looks.popleft()
        expected = len(self._looks) * TURN_SECONDS
        return min(expected, SHOW_MOST) if expected > USUAL_SECONDS else 0.0

    async def _restored(self, request: ObserveRequest, package: PackageObject | None) -> Restored:
        stored = await self._records.load(request.key)
        status = package.status if package else None
        actions = tuple(status.actions or ()) if status else ()
        record, ref = stored or (None, None)
        same_life = bool(record and package and record.uid == package.metadata.uid)
        return Restored(
            artifact=record.artifact if record else None,
            released=record.released.artifact if record and record.released else None,
            completed=(status.completed or "") if status and same_life else "",
            conditions=_conditions(package) if same_life else (),
            actions=actions,
            paused=bool(status and status.paused),
            record=ref,
            placement=record.placement if record else None,
            known=record.known if record else Known(),
            version=(status.version or "") if status and same_life else "",
            release=status.release if status and same_life else None,
            control=control_of(package) if package and same_life else Control(),
        )


def _conditions(package: PackageObject | None) -> tuple[Condition, ...]:
    status = package.status if package else None
    known = {type_.value for type_ in Type}
    found = {c.type: c for c in (status.conditions or []) if c.type in known} if status else {}
    if not found:
        return ()
    return tuple(
        Condition(
            type=type_,
            status=Status(found[type_].status),
            reason=found[type_].reason,
            message=found[type_].message,
            since=found[type_].last_transition_time.timestamp(),
            observed_generation=found[type_].observed_generation or 0,
        )
        if type_ in found
        else Condition(type=type_)
        for type_ in Type
    )
