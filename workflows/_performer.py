"""Performs one step: turns it into its activity and the activity's answer into a `Result`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from temporalio import workflow
from temporalio.types import MethodAsyncSingleParam

from windlass.workflows._options import (
    DOWNLOAD,
    DRIFT_CHECK,
    HELM_CHANGE,
    HOOK_RUN,
    OPENED,
    OPENING,
    PLACING,
    QUICK,
    WATCHING,
    in_pool,
)

with workflow.unsafe.imports_passed_through():
    from windlass.activities.cleaning import CleaningActivities
    from windlass.activities.drift import DriftActivities
    from windlass.activities.helm import HelmActivities
    from windlass.activities.hooks.events import EventHookActivities
    from windlass.activities.hooks.lifecycle import HookActivities
    from windlass.activities.packages import PackageActivities
    from windlass.activities.settings import SettingsActivities
    from windlass.contracts.lifecycle import LifecycleState
    from windlass.contracts.objects import ReleaseStatus
    from windlass.contracts.steps import (
        DownloadRequest,
        DriftRequest,
        FinalizerRequest,
        HookRequest,
        InstallRequest,
        LoadRequest,
        PackageRequest,
        Performed,
        PlaceRequest,
        Programs,
        ReleaseRequest,
        SettingsRequest,
        UninstallRequest,
        UnwatchRequest,
        WatchRequest,
    )
    from windlass.domain.drift.comparison import held
    from windlass.domain.ids import PackageKey
    from windlass.domain.lifecycle.provenance import Known
    from windlass.domain.lifecycle.steps import (
        BINDING_OF,
        Next,
        Step,
        content_to_load,
        hook_at,
        place_of,
        tearing_down,
    )
    from windlass.domain.lifecycle.transitions import Result
    from windlass.domain.packages.model import Artifact, Binding, Hook

WITHOUT_ACTIVITY = frozenset({Step.ADOPT, Step.STOP, Step.ROLL_BACK})
"""Steps that change what is known and nothing in the world."""

REMOTE = frozenset(
    {
        Step.DOWNLOAD,
        Step.RESOLVE,
        Step.PLACE,
        Step.WATCH,
        Step.CHECK_DRIFT,
        Step.UPGRADE_RELEASE,
        Step.UNINSTALL_RELEASE,
        *BINDING_OF,
    }
)
"""Steps that are remote activities: heartbeats, cancellation, and a status write when they take long."""


OPENING_STEPS = frozenset({Step.INSTALL, Step.LOAD})
"""Steps that open a package if the download has not."""


class Pending(Protocol):
    """An answer that may only say that the remote activity is to be called."""

    @property
    def pending(self) -> bool:
        """Whether it is that."""
        ...


def foregone(step: Next, state: LifecycleState, at_hand: Artifact | None, *, placed: bool) -> Performed | None:
    """Return what a step brings that takes no activity; None if it takes one.

    ``at_hand`` is what the source comes to, as the last look at the object found it; ``placed`` says that the same look
    found that the package can be worked on in its place.
    """
    if step.step is Step.PLACE and placed and not state.desired.refused:
        return Performed(record=state.record)
    if step.step in WITHOUT_ACTIVITY or (step.step is Step.STARTUP and step.hook is None):
        return Performed(record=state.record)
    if step.step is Step.DOWNLOAD and at_hand is not None and at_hand.source == state.desired.source:
        return _downloaded(at_hand, state)
    return None


async def perform(key: PackageKey, step: Next, state: LifecycleState, went_remote: Callable[[], None]) -> Performed:
    """Run the activity of ``step``; activity failures pass through.

    ``went_remote`` is called when a step that may be done in a local activity takes a remote one.
    """
    desired, progress = state.wanted, state.progress
    match step.step:
        case Step.ADD_FINALIZER:
            await workflow.execute_local_activity_method(
                PackageActivities.add_finalizer, FinalizerRequest(key=key, uid=desired.uid), **QUICK
            )
            return Performed(record=state.record)
        case Step.DOWNLOAD | Step.RESOLVE:
            return await _download(key, state)
        case Step.INSTALL:
            request = InstallRequest(
                key=key,
                uid=progress.owner,
                artifact=_known(progress.artifact),
                record=state.record,
                open=_may_open(state),
                programs=_programs(state),
            )
            installed = await _local_first(PackageActivities.install, request, went_remote)
            return Performed(record=installed.record)
        case Step.PLACE:
            place = PlaceRequest(key=key, uid=progress.owner, placement=None if desired.refused else desired.placement)
            await workflow.execute_activity_method(
                PackageActivities.place,
                place,
                summary=str(place.placement.target) if place.placement else "",
                **PLACING,
            )
            return Performed(record=state.record)
        case Step.LOAD:
            content = _known(content_to_load(desired, progress))
            load = LoadRequest(key=key, artifact=content, programs=_programs(state))
            loaded = await _local_first(PackageActivities.load, load, went_remote)
            return Performed(result=Result(loaded=loaded.loaded), record=state.record)
        case Step.APPLY_SETTINGS:
            return await _apply_settings(key, state, went_remote)
        case Step.WATCH:
            return await _watch(key, state)
        case Step.UNWATCH:
            unwatch = UnwatchRequest(key=key, uid=progress.owner, record=state.record)
            ended = await workflow.execute_local_activity_method(EventHookActivities.unwatch, unwatch, **QUICK)
            return Performed(record=ended.record)
        case Step.UPGRADE_RELEASE:
            return await _upgrade_release(key, state)
        case Step.CHECK_DRIFT:
            return await _check_drift(key, state)
        case Step.UNINSTALL_RELEASE:
            gone = await workflow.execute_activity_method(
                HelmActivities.uninstall_release,
                UninstallRequest(
                    key=key,
                    uid=progress.owner,
                    record=state.record,
                    last=progress.removing
                    and progress.loaded is not None
                    and hook_at(progress.loaded, Binding.AFTER_DELETE_HELM, 0) is None,
                    placement=place_of(desired, progress),
                    known=state.known,
                    adopt=state.adopting,
                ),
                summary="uninstall and wait until the objects are gone",
                **in_pool(HELM_CHANGE, key, state, "helm"),
            )
            note = f"release removed, {gone.objects} objects gone"
            return Performed(record=gone.record, note=note, known=Known())
        case Step.CLEAN_UP:
            await workflow.execute_local_activity_method(CleaningActivities.clean_up, PackageRequest(key=key), **QUICK)
            return Performed(known=Known())
        case Step.RELEASE_FINALIZER:
            await workflow.execute_local_activity_method(
                PackageActivities.release_finalizer, FinalizerRequest(key=key, uid=progress.owner), **QUICK
            )
            return Performed()
        case _ if step.hook is not None:
            return await _run_hook(key, step, step.hook, state)
        case _:
            return Performed(record=state.record)


async def _local_first[Asked, Answer: Pending](
    method: MethodAsyncSingleParam[Any, Asked, Answer], request: Asked, went_remote: Callable[[], None]
) -> Answer:
    """Run an activity that is a local one over content that its worker has opened, else a remote one."""
    begun = await workflow.execute_local_activity_method(method, request, **OPENED)
    if not begun.pending:
        return begun
    went_remote()
    return await workflow.execute_activity_method(method, request, **OPENING)


def _may_open(state: LifecycleState) -> bool:
    """Say whether a package may be opened by the steps before it is loaded: nobody has set a breakpoint there."""
    return not state.paused and OPENING_STEPS.isdisjoint(state.control.breakpoints)


def _programs(state: LifecycleState) -> Programs:
    """Say what becomes of the programs that a package brings."""
    if state.wanted.hooks_allowed:
        return "admitted"
    return "omitted" if tearing_down(state.wanted, state.progress) else "denied"


async def _download(key: PackageKey, state: LifecycleState) -> Performed:
    source = state.desired.source
    if source is None:
        raise ValueError("an object that exists names a version")  # a bug: the task fails and is seen
    request = DownloadRequest(key=key, source=source, open=_may_open(state), programs=_programs(state))
    found = await workflow.execute_activity_method(PackageActivities.download, request, summary=str(source), **DOWNLOAD)
    return _downloaded(found.artifact, state)


def _downloaded(artifact: Artifact, state: LifecycleState) -> Performed:
    return Performed(
        result=Result(artifact=artifact),
        record=state.record,
        note=f"{artifact.source} is {artifact.digest[:19]}",
    )


async def _apply_settings(key: PackageKey, state: LifecycleState, went_remote: Callable[[], None]) -> Performed:
    target = state.control.target
    request = SettingsRequest(
        key=key,
        uid=state.progress.owner,
        artifact=_known(state.progress.artifact),
        record=state.record,
        restore=target.mark if target else "",
        settings=state.desired.settings,
        keep=tuple(good.mark for good in state.control.good),
        placement=state.progress.placed,
    )
    applied = await _local_first(SettingsActivities.apply_settings, request, went_remote)
    return Performed(
        result=Result(settings=applied.settings, values=applied.values, disabled=applied.disabled),
        record=applied.record,
        note=f"disabled by its own script: {applied.disabled}" if applied.disabled else "",
    )


async def _watch(key: PackageKey, state: LifecycleState) -> Performed:
    loaded = state.progress.loaded
    request = WatchRequest(
        key=key,
        uid=state.progress.owner,
        artifact=_known(loaded.artifact if loaded else None),
        hooks=loaded.hooks if loaded else (),
        record=state.record,
        placement=state.progress.placed,
    )
    begun = await workflow.execute_activity_method(EventHookActivities.watch, request, **WATCHING)
    return Performed(result=Result(unsynchronized=begun.unsynchronized), record=begun.record, queues=begun.queues)


async def _upgrade_release(key: PackageKey, state: LifecycleState) -> Performed:
    content = _known(state.progress.artifact)
    request = ReleaseRequest(
        key=key,
        uid=state.progress.owner,
        generation=state.desired.generation,
        artifact=content,
        record=state.record,
        keep=tuple(good.mark for good in state.control.good),
        settings=state.desired.settings,
        placement=state.progress.placed,
        known=state.known,
        adopt=state.adopting,
    )
    made = await workflow.execute_activity_method(
        HelmActivities.upgrade_release,
        request,
        summary=f"{content.source.package} {content.exact}",
        **in_pool(HELM_CHANGE, key, state, "helm"),
    )
    release = ReleaseStatus(name=made.name, namespace=made.namespace or key.home, revision=made.revision or None)
    healed = f", after {made.healed}" if made.healed else ""
    note = f"{made.action} revision {made.revision}{healed}" if made.action in {"installed", "upgraded"} else ""
    return Performed(
        result=Result(values=made.values, superseded=made.superseded, unchanged=made.action in {"unchanged", "none"}),
        record=made.record or state.record,
        release=release if made.name else None,
        note=note,
        known=made.known,
    )


async def _check_drift(key: PackageKey, state: LifecycleState) -> Performed:
    request = DriftRequest(
        key=key,
        uid=state.progress.owner,
        record=state.record,
        known=state.known,
        revision=(state.release.revision or 0) if state.release else 0,
        correct=state.desired.drift.corrects,
        held=tuple(held(state.drift.corrections, workflow.time())),
        placement=state.progress.placed,
    )
    found = await workflow.execute_activity_method(
        DriftActivities.check, request, summary=state.desired.drift.mode.value, **DRIFT_CHECK
    )
    return Performed(record=state.record, drift=found)


async def _run_hook(key: PackageKey, step: Next, hook: Hook, state: LifecycleState) -> Performed:
    content = _known(state.progress.loaded.artifact if state.progress.loaded else None)
    request = HookRequest(
        key=key,
        uid=state.progress.owner,
        artifact=content,
        hook=hook,
        binding=BINDING_OF[step.step],
        run_id=state.hook_run,
        record=state.record,
        placement=place_of(state.wanted, state.progress),
    )
    ran = await workflow.execute_activity_method(
        HookActivities.run,
        request,
        summary=f"{BINDING_OF[step.step].value}: {hook.path}",
        **HOOK_RUN,
    )
    return Performed(result=Result(values=ran.values), record=ran.record or state.record)


def _known(artifact: Artifact | None) -> Artifact:
    if artifact is None:
        raise ValueError("no content is pinned where a step needs it")  # a bug: the task fails and is seen
    return artifact
