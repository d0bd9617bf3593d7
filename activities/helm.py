"""Helm steps: bring the release to its content and values, take it away, and wait for the cluster to follow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

from temporalio import activity

from windlass.activities.content import Content, Contents, revision_of
from windlass.activities.heartbeat import Beat, heartbeating
from windlass.activities.inputs import object_ref
from windlass.activities.package_objects import PackageObjects
from windlass.activities.placing import release_of, required
from windlass.activities.progress import ProgressReporter
from windlass.activities.turns import Turn, Turns
from windlass.contracts.objects import PackageObject
from windlass.contracts.steps import ReleaseRequest, ReleaseResult, UninstallRequest, UninstallResult
from windlass.domain.errors import Actor, WindlassError
from windlass.domain.ids import owner_name
from windlass.domain.packages.model import Values
from windlass.domain.settings.chart_schema import check_chart
from windlass.domain.settings.schema import raise_if_invalid, validate
from windlass.domain.settings.values import VALUES_ROOT, release_values
from windlass.domain.target import Placement, Target
from windlass.domain.text.secret_texts import marked_texts
from windlass.ports.clock import Clock
from windlass.ports.helm import Helm, ReleaseOutcome
from windlass.ports.helm import ReleaseRequest as HelmRequest
from windlass.ports.kube import Kube, ObjectRef, Readiness
from windlass.ports.targets import Role, Targets

KEEP = "helm.sh/resource-policy"
"""Helm's annotation for objects that outlive their release."""

GONE_DEADLINE = 600.0
"""Seconds that the objects of a deleted release may take to go; then the step fails and is tried again."""


LOOK_SECONDS = 2.0
"""Seconds between looks at what settings refer to, while a release is awaited: a worker may get ConfigMaps, and has no
right to watch them."""


class HelmActivities:
    """Both steps read what is stored before they act: repeating them is safe."""

    def __init__(
        self,
        *,
        kube: Kube,
        objects: PackageObjects,
        helm: Helm,
        targets: Targets,
        readiness: Readiness,
        contents: Contents,
        clock: Clock,
        turns: Turns,
    ) -> None:
        self._kube = kube
        self._objects = objects
        self._helm = helm
        self._targets = targets
        self._readiness = readiness
        self._contents = contents
        self._clock = clock
        self._turns = turns

    @activity.defn(name="helm.upgrade_release")
    async def upgrade_release(self, request: ReleaseRequest) -> ReleaseResult:
        """Install or upgrade unless nothing changed, then wait until every object of the release is ready."""
        with self._turns.taken() as turn:
            _leave_to_others(turn, request.placement)
            return await self._upgrade(request, turn)

    async def _upgrade(self, request: ReleaseRequest, turn: Turn) -> ReleaseResult:
        async with heartbeating() as beat:
            package = await self._objects.package(request.key, request.uid, request.generation)
            content = await self._contents.ensure(request.artifact)
            state = await self._contents.applied(request.key, request.uid, request.record)
            values = self._contents.values(content, state.record)
            digest = self._contents.digest(values)
            # What the release is made from is kept: it may prove good, and then be gone back to.
            if not content.package.has_chart:
                state = await self._contents.update(
                    request.key,
                    request.uid,
                    state.ref,
                    lambda record: record.with_revision(revision_of(request.artifact, record), keep=request.keep),
                )
                return ReleaseResult(action="none", values=digest, record=state.ref)
            if content.schemas.helm is not None:
                found = validate(values, content.schemas.helm, root=VALUES_ROOT, concealed=values)
                raise_if_invalid(found, what="values for Helm", actor=Actor.AUTHOR)
            if content.package.chart_schema is not None:
                given = state.record.settings or {}
                found = await asyncio.to_thread(check_chart, content.package, values, settings=given, concealed=values)
                raise_if_invalid(found)
            wanted = self._wanted(request, content, values, state.record.secrets)
            state = await self._contents.update(
                request.key,
                request.uid,
                state.ref,
                lambda record: self._contents.releasing(record, request.artifact, values, request.keep),
            )
            beat.details, beat.waiting = "applying", True
            outcome = await self._helm.upgrade(wanted)
            turn.give_back()
            ready = await self._wait(request, package, outcome, beat) if package.spec.wait else True
        return ReleaseResult(
            action=outcome.action,
            values=digest,
            name=outcome.release.ref.name,
            namespace=outcome.release.ref.namespace,
            revision=outcome.release.revision,
            healed=outcome.healed,
            superseded=not ready,
            objects=len(outcome.objects),
            record=state.ref,
        )

    @activity.defn(name="helm.uninstall_release")
    async def uninstall_release(self, request: UninstallRequest) -> UninstallResult:
        """Delete the release and wait until its objects are gone."""
        with self._turns.taken() as turn:
            _leave_to_others(turn, request.placement)
            return await self._uninstall(request, turn)

    async def _uninstall(self, request: UninstallRequest, turn: Turn) -> UninstallResult:
        async with heartbeating() as beat:
            placement = required(request.placement, request.key)
            beat.details, beat.waiting = "uninstalling", True
            state = await self._contents.state(request.key, request.uid, request.record)

            async def write_down(objects: tuple[ObjectRef, ...]) -> None:
                # Helm forgets the objects with the release: written down first, a repeated attempt still awaits them.
                nonlocal state
                if objects:
                    leaving = tuple(asdict(one) for one in objects)
                    record = state.record.model_copy(update={"leaving": leaving})
                    state = await self._contents.save(request.key, state, record)

            await self._helm.uninstall(release_of(placement), owner=owner_name(request.key), told=write_down)
            turn.give_back()
            leaving = state.record.leaving
            objects = await self._not_kept(placement.target, [ObjectRef(**one) for one in leaving])
            reporter = ProgressReporter(self._kube, self._clock, request.key, beat)
            try:
                await self._readiness.wait_gone(
                    placement.target, objects, deadline=GONE_DEADLINE, on_progress=reporter.report
                )
            finally:
                await reporter.clear()
            if not request.last:
                state = await self._contents.save(
                    request.key, state, state.record.model_copy(update={"leaving": (), "released": None})
                )
        return UninstallResult(objects=len(leaving), record=state.ref)

    async def _not_kept(self, target: Target, refs: list[ObjectRef]) -> list[ObjectRef]:
        """Leave out what is gone, and what the chart asks Helm to keep."""
        leaving: list[ObjectRef] = []
        async with self._targets.acting(target) as acting:
            kube = await acting.kube(Role.READINESS)
            for ref in refs:
                obj = await kube.get(ref)
                if obj is None:
                    continue
                annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
                if annotations.get(KEEP) != "keep":
                    leaving.append(ref)
        return leaving

    def _wanted(self, request: ReleaseRequest, content: Content, values: Values, secrets: Sequence[str]) -> HelmRequest:
        placement = required(request.placement, request.key)
        return HelmRequest(
            ref=release_of(placement),
            owner=owner_name(request.key),
            create_namespace=placement.create_namespace,
            chart=content.root,
            chart_has_hooks=content.package.chart_has_hooks,
            values=release_values(content.package, values),
            digest=self._contents.release_digest(request.artifact, values),
            secrets=frozenset(secrets) | marked_texts(values, content.schemas),
        )

    async def _wait(self, request: ReleaseRequest, package: PackageObject, outcome: ReleaseOutcome, beat: Beat) -> bool:
        left = package.status is not None and package.status.progress is not None
        reporter = ProgressReporter(self._kube, self._clock, request.key, beat, shown=left)
        try:
            ready = self._readiness.wait_ready(
                outcome.release.ref.target,
                outcome.objects,
                deadline=package.spec.readiness_timeout,
                on_progress=reporter.report,
                owner=object_ref(request.key),
                owner_generation=request.generation,
            )
            if not (package.spec.values_from and request.settings):
                return await ready
            return await _unless(self._settings_move(request), ready)
        finally:
            await reporter.clear()

    async def _settings_move(self, request: ReleaseRequest) -> None:
        """Return once the settings are others than the lifecycle knows; a look that fails says nothing."""
        now = request.settings
        while now in {"", request.settings}:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(WindlassError):
                now = await self._objects.settings(request.key, request.uid)


def _leave_to_others(turn: Turn, placement: Placement | None) -> None:
    """Give the turn back at once for another cluster, which may not answer and has a share of Helm of its own."""
    if placement is not None and placement.target.cluster is not None:
        turn.give_back()


async def _unless(event: Coroutine[Any, Any, None], work: Coroutine[Any, Any, bool]) -> bool:
    """Return what ``work`` brings, or False when ``event`` comes first; none of both outlives the call."""
    tasks = (asyncio.create_task(work), asyncio.create_task(event))
    working, waiting = tasks
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        waiting.result()
        return False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
