"""How knowledge moves: what starting a step commits to, what its result teaches, and what is left to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from windlass.domain.lifecycle.steps import (
    OPEN,
    Desired,
    Disabled,
    Gate,
    Loaded,
    Next,
    Progress,
    Run,
    Scope,
    Step,
    Teardown,
    completion_mark,
    content_to_load,
    hook_at,
    next_step,
)
from windlass.domain.packages.model import Artifact, Binding, Hook


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a performed step brought back; only the fields its step fills are read."""

    artifact: Artifact | None = None
    loaded: Loaded | None = None
    settings: str = ""
    values: str = ""
    disabled: str = ""
    superseded: bool = False
    unchanged: bool = False
    unsynchronized: int = 0


def done(step: Next, desired: Desired, progress: Progress, result: Result) -> Progress:
    """Fold the result of a successful step into what is known.

    ``desired`` is what was wanted when the step started: a change during the step is noticed by the next one.
    """
    match step.step:
        case Step.ADOPT:
            # What an earlier life left behind is known and no more: this one installs and loads for itself.
            adopted = Progress(
                owner=desired.uid,
                artifact=progress.artifact if _may_keep(desired, progress) else None,
                released=progress.released,
                completed=progress.completed if not progress.owner else "",
                placed=progress.placed,
            )
            return begin_removal(desired, adopted)
        case Step.DOWNLOAD | Step.ROLL_BACK | Step.RESOLVE:
            return replace(progress, artifact=desired.pinned or result.artifact, offer=desired.offer)
        case Step.INSTALL:
            installed = progress.artifact.digest if progress.artifact else ""
            kept = progress.completed if progress.completed.startswith(f"{installed}/") else ""
            return _stopped(replace(progress, installed=installed, loaded=None, completed=kept))
        case Step.PLACE:
            return _placed(desired, progress)
        case Step.LOAD:
            return replace(progress, loaded=result.loaded)
        case Step.APPLY_SETTINGS:
            return _settings_applied(progress, result)
        case Step.STARTUP:
            return _started(progress, hook=step.hook)
        case Step.WATCH | Step.UNWATCH:
            return replace(progress, watching=step.step is Step.WATCH, unsynchronized=result.unsynchronized)
        case Step.BEFORE_HELM:
            return replace(progress, run=replace(progress.run, before=progress.run.before + 1))
        case Step.UPGRADE_RELEASE:
            return _release_made(progress, result)
        case Step.AFTER_HELM:
            return _after_helm_ran(progress, result)
        case Step.STOP:
            return replace(_stopped(progress), teardown=Teardown(), completed="")
        case Step.BEFORE_DELETE_HELM | Step.UNINSTALL_RELEASE | Step.AFTER_DELETE_HELM:
            return _torn(step.step, progress)
        case Step.CLEAN_UP:
            return replace(progress, cleaned=True, installed="", artifact=None, loaded=None, released=None, placed=None)
        case Step.RELEASE_FINALIZER:
            return Progress()
        case _:
            return _looked_at(step, progress)


def begin(step: Next, progress: Progress) -> Progress:
    """Return what is known once a step has been started, however it ends.

    A release that was begun may exist; a removal that was begun is finished.
    """
    match step.step:
        case Step.DOWNLOAD | Step.ROLL_BACK:
            # Its beginning clears the conditions: a return to the content in hand has to bring them back.
            return replace(progress, installed="", settings_for="")
        case Step.APPLY_SETTINGS:
            # Refused or cancelled, they must be applied again even if the ones before come back.
            return replace(progress, settings_for="", disabled=None)
        case Step.UPGRADE_RELEASE:
            kept = progress.completed if progress.run.verify else ""
            # What event hooks have patched by now, this release has.
            return replace(progress, released=progress.artifact, teardown=Teardown(), completed=kept, again=False)
        case Step.STARTUP | Step.BEFORE_HELM:
            return replace(progress, completed="")
        case Step.BEFORE_DELETE_HELM | Step.UNINSTALL_RELEASE | Step.AFTER_DELETE_HELM:
            return replace(progress, active=False, startup=0, completed="")
        case _:
            return progress


def events_ran(progress: Progress, *, changed: bool, unsynchronized: int) -> Progress:
    """Return what is known after a run of an event hook.

    Changed values call for one more Run, after the one under way if there is one (reference: deckhouse.md section 4).
    ``unsynchronized`` is how many awaited Synchronizations were left when it ended; runs of several queues may be told
    in another order than they ended.
    """
    progress = replace(progress, unsynchronized=min(progress.unsynchronized, unsynchronized))
    if not changed or progress.unsynchronized or not progress.active:
        return progress
    progress = replace(progress, again=True, completed="")
    return _rerun(progress) if progress.run.complete else progress


def begin_removal(desired: Desired, progress: Progress) -> Progress:
    """Return ``progress`` marked as removing when the object of this very life is being deleted."""
    ours = desired.exists and desired.deleting and desired.uid == progress.owner
    if not ours or progress.removing or not desired.finalizer:
        return progress
    return replace(progress, removing=True, teardown=Teardown(), active=False)


def _may_keep(desired: Desired, progress: Progress) -> bool:
    """Say whether a life may go on with the content that an earlier one pinned.

    One that its repository does not serve may not: it is a use of the repository. If this life has completed a run,
    which a lost workflow leaves behind in status, the content is its own.
    """
    return desired.served or (not progress.owner and bool(progress.completed))


def _placed(desired: Desired, progress: Progress) -> Progress:
    if progress.placed is None:
        return replace(progress, placed=desired.placement)
    # As somebody else, everything is done once more: settings may read differently, and hooks may do other things.
    return _stopped(replace(progress, placed=desired.placement, settings_for="", completed=""))


def _looked_at(step: Next, progress: Progress) -> Progress:
    return replace(progress, check_drift=False) if step.step is Step.CHECK_DRIFT else progress


def _stopped(progress: Progress) -> Progress:
    return replace(progress, active=False, startup=0, run=Run(), again=False)


def _settings_applied(progress: Progress, result: Result) -> Progress:
    digest = progress.loaded.artifact.digest if progress.loaded else ""
    trigger = Scope.SETTINGS if progress.active else Scope.SCHEDULE
    mark = completion_mark(progress.artifact, result.settings)
    known = progress.completed == mark
    said = Disabled(digest=digest, settings=result.settings, message=result.disabled) if result.disabled else None
    return replace(
        progress,
        settings=result.settings,
        settings_for=digest,
        values=result.values,
        disabled=said,
        active=progress.active or known,
        run=Run(trigger=trigger, verify=known),
    )


def _started(progress: Progress, *, hook: Hook | None) -> Progress:
    startup = progress.startup + (1 if hook else 0)
    more = progress.loaded is not None and hook_at(progress.loaded, Binding.ON_STARTUP, startup) is not None
    return replace(
        progress, startup=startup, active=not more, run=Run(trigger=Scope.SCHEDULE, skipped=progress.run.skipped)
    )


def _release_made(progress: Progress, result: Result) -> Progress:
    if result.superseded:
        # The wait was given up for a newer desired state; the release stands, the Run is not complete.
        return progress
    run = replace(progress.run, releases=progress.run.releases + 1, values=result.values)
    # What drift took away is put back without hooks: nothing that they depend on has changed.
    if run.verify and not result.unchanged and run.trigger is not Scope.RUN:
        run = replace(run, verify=False)
    return _run_closed(replace(progress, run=run, values=result.values))


def _after_helm_ran(progress: Progress, result: Result) -> Progress:
    run = replace(progress.run, after=progress.run.after + 1)
    return _run_closed(replace(progress, run=run, values=result.values))


def _run_closed(progress: Progress) -> Progress:
    """Close the run when all afterHelm hooks ran and the last release has the values they left."""
    run = progress.run
    loaded = progress.loaded
    if loaded is None:
        return progress
    hooks_left = not run.verify and hook_at(loaded, Binding.AFTER_HELM, run.after) is not None
    changed = run.values != progress.values
    if (run.releases == 1 and (hooks_left or changed)) or run.releases == 0:
        return progress
    if progress.again:
        return _rerun(progress)
    return replace(
        progress,
        run=replace(run, complete=True),
        completed=completion_mark(progress.artifact, progress.settings),
    )


def _rerun(progress: Progress) -> Progress:
    return replace(progress, run=Run(trigger=Scope.SCHEDULE), again=False)


def _torn(step: Step, progress: Progress) -> Progress:
    teardown = progress.teardown
    match step:
        case Step.BEFORE_DELETE_HELM:
            return replace(progress, teardown=replace(teardown, before=teardown.before + 1))
        case Step.UNINSTALL_RELEASE:
            return _release_gone(replace(progress, teardown=replace(teardown, uninstalled=True)))
        case _:
            return _release_gone(replace(progress, teardown=replace(teardown, after=teardown.after + 1)))


def _release_gone(progress: Progress) -> Progress:
    loaded = progress.loaded
    hooks_left = loaded is not None and hook_at(loaded, Binding.AFTER_DELETE_HELM, progress.teardown.after) is not None
    if hooks_left:
        return progress
    # Nothing is left to take away: a removal goes on to the files, a suspension rests with the package unloaded.
    return replace(progress, released=None, loaded=None, run=Run(), settings_for="")


_PROJECTION_LIMIT: Final = 200


def remaining(desired: Desired, progress: Progress, *, paused: bool = False, gate: Gate = OPEN) -> tuple[Next, ...]:
    """Return the steps that are left if each succeeds: what the main queue shows.

    Hooks of a package that is not loaded yet are not known and therefore not shown.
    """
    steps: list[Next] = []
    while len(steps) < _PROJECTION_LIMIT:
        progress = begin_removal(desired, progress)
        step = next_step(desired, progress, paused=paused, gate=gate)
        if step.step in {Step.WAIT, Step.FINISH}:
            break
        steps.append(step)
        desired, progress = _assumed(step, desired, begin(step, progress))
    return tuple(steps)


def _assumed(step: Next, desired: Desired, progress: Progress) -> tuple[Desired, Progress]:
    content = content_to_load(desired, progress)
    result = Result(
        artifact=_assumed_artifact(step, desired, progress),
        loaded=Loaded(artifact=content) if content else None,
        settings=desired.settings,
        values=progress.values,
        unchanged=True,
    )
    if step.step is Step.ADD_FINALIZER:
        desired = replace(desired, finalizer=True)
    if step.step is Step.RELEASE_FINALIZER:
        desired = Desired()
    return desired, done(step, desired, progress, result)


def _assumed_artifact(step: Next, desired: Desired, progress: Progress) -> Artifact | None:
    if step.step is Step.RESOLVE:
        return progress.artifact  # most often nothing better is found
    return Artifact(source=desired.source, digest="?") if desired.source else None
