"""The heart: what is known of a package, what is wanted, and the one next step.

`next_step` is a pure function; the workflow performs the step it names, folds the result into `Progress` with
`transitions.done`, and asks again. There is no stored list of tasks: what remains is the projection of `next_step`
over assumed success (`transitions.remaining`), and that is what the main queue shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from windlass.domain.drift.comparison import Policy
from windlass.domain.lifecycle import conditions as cond
from windlass.domain.packages.model import Artifact, Binding, Hook, Source, hooks_for
from windlass.domain.target import Placement


class Step(StrEnum):
    """Everything a lifecycle can do next; values are wire values and what people read."""

    ADD_FINALIZER = "AddFinalizer"
    ROLL_BACK = "RollBack"
    DOWNLOAD = "Download"
    RESOLVE = "Resolve"
    INSTALL = "Install"
    PLACE = "Place"
    LOAD = "Load"
    APPLY_SETTINGS = "ApplySettings"
    STARTUP = "Startup"
    WATCH = "Watch"
    UNWATCH = "Unwatch"
    BEFORE_HELM = "BeforeHelm"
    UPGRADE_RELEASE = "UpgradeRelease"
    AFTER_HELM = "AfterHelm"
    CHECK_DRIFT = "CheckDrift"
    STOP = "Stop"
    BEFORE_DELETE_HELM = "BeforeDeleteHelm"
    UNINSTALL_RELEASE = "UninstallRelease"
    AFTER_DELETE_HELM = "AfterDeleteHelm"
    CLEAN_UP = "CleanUp"
    RELEASE_FINALIZER = "ReleaseFinalizer"
    ADOPT = "Adopt"
    WAIT = "Wait"
    FINISH = "Finish"


class Scope(StrEnum):
    """Cancellation scopes (reference: deckhouse.md section 2.3). Root contains the others."""

    ROOT = "root"
    SETTINGS = "settings"
    SCHEDULE = "schedule"
    RUN = "run"


class Hold(StrEnum):
    """Why nothing is done."""

    IDLE = "Idle"
    SUSPENDED = "Suspended"
    DISABLED = "Disabled"
    PAUSED = "Paused"
    GATED = "Gated"
    SYNCHRONIZING = "Synchronizing"
    BACKOFF = "Backoff"
    HELD = "Held"
    BREAKPOINT = "Breakpoint"
    ROLLED_BACK = "RolledBack"


class OnFailure(StrEnum):
    """What the failure of an upgrade leads to; values are wire values."""

    RETRY = "retry"
    ROLLBACK = "rollback"
    HOLD = "hold"


ATTEMPTS: Final = 3
"""How often a step may fail before the policy of the upgrade decides, unless the object says otherwise."""


BINDING_OF: Final = {
    Step.STARTUP: Binding.ON_STARTUP,
    Step.BEFORE_HELM: Binding.BEFORE_HELM,
    Step.AFTER_HELM: Binding.AFTER_HELM,
    Step.BEFORE_DELETE_HELM: Binding.BEFORE_DELETE_HELM,
    Step.AFTER_DELETE_HELM: Binding.AFTER_DELETE_HELM,
}

CONDITION_OF: Final = {
    Step.DOWNLOAD: cond.Type.READY_ON_FILESYSTEM,
    Step.INSTALL: cond.Type.READY_ON_FILESYSTEM,
    Step.PLACE: cond.Type.REQUIREMENTS_MET,
    Step.LOAD: cond.Type.READY_IN_RUNTIME,
    Step.APPLY_SETTINGS: cond.Type.SETTINGS_VALID,
    Step.STARTUP: cond.Type.HOOKS_PROCESSED,
    Step.WATCH: cond.Type.HOOKS_PROCESSED,
    Step.BEFORE_HELM: cond.Type.HOOKS_PROCESSED,
    Step.AFTER_HELM: cond.Type.HOOKS_PROCESSED,
    Step.BEFORE_DELETE_HELM: cond.Type.HOOKS_PROCESSED,
    Step.AFTER_DELETE_HELM: cond.Type.HOOKS_PROCESSED,
    Step.UPGRADE_RELEASE: cond.Type.READY_IN_CLUSTER,
}
"""The condition a step works for; steps without one report through `Ready` alone."""


@dataclass(frozen=True, kw_only=True)
class Desired:
    """What the object says now, by digest where it is large or secret.

    ``settings`` is the keyed digest of the settings and of everything they reference; ``pinned`` is content that is
    used as it is, instead of what the repository has under ``source`` (`domain.lifecycle.policy.effective`). ``offer``
    changes whenever the version, if it is a range, may come to something else. ``abandon`` says that a removal runs no
    hooks and leaves the release in place. ``placement`` is where the object wants the package; ``refused`` says that
    it asks for a place that it may not have. ``served`` says that the repository serves the package's namespace,
    ``hooks_allowed`` that its packages may bring programs of their own.
    """

    exists: bool = False
    uid: str = ""
    generation: int = 0
    deleting: bool = False
    abandon: bool = False
    finalizer: bool = False
    source: Source | None = None
    settings: str = ""
    offer: str = ""
    suspended: bool = False
    delete_on_disable: bool = False
    on_failure: OnFailure = OnFailure.RETRY
    attempts: int = ATTEMPTS
    pinned: Artifact | None = None
    drift: Policy = field(default_factory=Policy)
    placement: Placement | None = None
    refused: bool = False
    served: bool = True
    hooks_allowed: bool = True


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The package in memory: which content, and its hooks.

    ``programs`` says that it brings programs of its own (hooks, the script ``enabled``), ``bare`` that they were left
    out, since the repository denies them: that is enough to take a release away.
    """

    artifact: Artifact
    hooks: tuple[Hook, ...] = ()
    programs: bool = False
    bare: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """One Run: beforeHelm hooks, release, afterHelm hooks, and one more release if those changed the values.

    ``before`` and ``after`` count hooks done; ``releases`` counts releases of this run (0 to 2); ``values`` is the
    digest of the merged values of the last one; ``verify`` is a run that only looks whether the release stands;
    ``skipped`` says that a person had a failed step of it passed over.
    """

    trigger: Scope = Scope.SCHEDULE
    before: int = 0
    releases: int = 0
    after: int = 0
    values: str = ""
    verify: bool = False
    complete: bool = False
    skipped: bool = False


@dataclass(frozen=True, kw_only=True)
class Teardown:
    """Taking the release away, for removal or for a suspension with ``deleteOnDisable``."""

    before: int = 0
    uninstalled: bool = False
    after: int = 0


@dataclass(frozen=True, kw_only=True)
class Disabled:
    """What a module's ``enabled`` script said of itself: that it is not, with this content and these settings."""

    digest: str
    settings: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What has been done and confirmed.

    ``owner`` is the uid whose life this is. ``offer`` is what ``artifact`` was chosen from. ``released`` is the content
    of the release that may stand in the cluster; it is set before the first attempt, so that a half-made release is
    never forgotten. ``watching`` says that the kubernetes bindings of the loaded hooks are enabled; ``unsynchronized``
    counts their Synchronizations that the first release waits for; ``again`` says that an event hook changed the values
    since the last release was begun.
    ``check_drift`` says that the objects of the release are to be compared with its manifest. ``placed`` is the place
    that the package was given: where its release is, whatever the object says now.
    """

    owner: str = ""
    artifact: Artifact | None = None
    offer: str = ""
    installed: str = ""
    loaded: Loaded | None = None
    released: Artifact | None = None
    settings: str = ""
    settings_for: str = ""
    values: str = ""
    startup: int = 0
    active: bool = False
    watching: bool = False
    unsynchronized: int = 0
    again: bool = False
    run: Run = field(default_factory=Run)
    completed: str = ""
    check_drift: bool = False
    removing: bool = False
    teardown: Teardown = field(default_factory=Teardown)
    cleaned: bool = False
    disabled: Disabled | None = None
    placed: Placement | None = None


@dataclass(frozen=True, kw_only=True)
class Next:
    """The one next step, the scope it belongs to, and for hook steps the hook.

    ``blocked`` is the label of the step that an action or a failure keeps from being begun.
    """

    step: Step
    scope: Scope = Scope.ROOT
    hook: Hook | None = None
    hold: Hold | None = None
    blocked: str = ""

    @property
    def label(self) -> str:
        """The step as people read it: ``BeforeHelm hooks/10-secret.sh``."""
        return f"{self.step.value} {self.hook.path}" if self.hook else self.step.value


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The scheduler's say. Open until the dependency graph decides (its room)."""

    open: bool = True
    reason: str = ""
    message: str = ""


OPEN: Final = Gate()


def completion_mark(artifact: Artifact | None, settings: str) -> str:
    """Return the mark of a completed Run: content and settings it ran with."""
    return f"{artifact.digest if artifact else ''}/{settings}"


def next_step(desired: Desired, progress: Progress, *, paused: bool = False, gate: Gate = OPEN) -> Next:
    """Return the one next step.

    Removal once begun is finished for the uid it began with, whatever the object has become since; pausing holds
    everything but a removal.
    """
    if progress.removing:
        return _removal(desired, progress)
    if not desired.exists:
        return _forget(progress)
    if progress.owner != desired.uid:
        return Next(step=Step.UNWATCH if progress.watching else Step.ADOPT)
    if desired.deleting:
        return _removal(desired, progress) if desired.finalizer else _forget(progress)
    if paused:
        return Next(step=Step.WAIT, hold=Hold.PAUSED)
    if not desired.finalizer:
        return Next(step=Step.ADD_FINALIZER)
    if desired.suspended:
        return _rest(desired, progress, Hold.SUSPENDED)
    return _pipeline(desired, progress, gate)


def serving(desired: Desired, progress: Progress) -> bool:
    """Say whether hooks of the loaded content may run for what happens to objects."""
    loaded, artifact = progress.loaded, progress.artifact
    if not progress.watching or loaded is None or artifact is None:
        return False
    mine = desired.exists and desired.uid == progress.owner and not desired.deleting and not progress.removing
    newest = artifact.source == desired.source and progress.installed == artifact.digest == loaded.artifact.digest
    return mine and newest and in_place(desired, progress) and not desired.suspended and not _denied(desired, loaded)


def in_place(desired: Desired, progress: Progress) -> bool:
    """Say whether the package is where the object wants it, and may be there."""
    return progress.placed == desired.placement and not desired.refused


def _denied(desired: Desired, loaded: Loaded) -> bool:
    """Say whether programs are denied, or were, that the package does not work without."""
    return loaded.programs and (loaded.bare or not desired.hooks_allowed)


def _forget(progress: Progress) -> Next:
    # Somebody took the finalizer off by hand: the documented way out. Only our own files are dropped.
    if progress.watching:
        return Next(step=Step.UNWATCH)
    ours = progress.owner or progress.artifact or progress.released
    return Next(step=Step.CLEAN_UP if ours and not progress.cleaned else Step.FINISH)


def _pipeline(desired: Desired, progress: Progress, gate: Gate) -> Next:
    if progress.watching and not serving(desired, progress):
        return Next(step=Step.UNWATCH)
    if moved(desired, progress) and (step := _teardown(desired, progress)) is not None:
        return step
    if desired.pinned is not None and progress.artifact != desired.pinned:
        return Next(step=Step.ROLL_BACK)
    if progress.artifact is None or progress.artifact.source != desired.source:
        return Next(step=Step.DOWNLOAD)
    if desired.pinned is None and desired.offer and progress.offer != desired.offer:
        return Next(step=Step.RESOLVE)
    digest = progress.artifact.digest
    if progress.installed != digest:
        return Next(step=Step.INSTALL)
    if not in_place(desired, progress):
        return Next(step=Step.PLACE)
    if disabled(desired, progress):
        return _rest(desired, progress, Hold.DISABLED)
    loaded = progress.loaded
    if loaded is None or loaded.artifact.digest != digest or _denied(desired, loaded):
        return Next(step=Step.LOAD)
    if progress.settings != desired.settings or progress.settings_for != digest:
        return Next(step=Step.APPLY_SETTINGS, scope=Scope.SETTINGS)
    if not gate.open:
        return Next(step=Step.WAIT, hold=Hold.GATED)
    if not progress.active:
        hook = hook_at(loaded, Binding.ON_STARTUP, progress.startup)
        return Next(step=Step.STARTUP, scope=Scope.SCHEDULE, hook=hook)
    if not progress.watching and follows(loaded):
        return Next(step=Step.WATCH, scope=Scope.SCHEDULE)
    if progress.unsynchronized:
        return Next(step=Step.WAIT, hold=Hold.SYNCHRONIZING)
    return _run(progress, loaded)


def _run(progress: Progress, loaded: Loaded) -> Next:
    run = progress.run
    if run.complete and progress.check_drift:
        return Next(step=Step.CHECK_DRIFT, scope=Scope.RUN)
    if run.complete:
        return Next(step=Step.WAIT, hold=Hold.IDLE)
    before = hook_at(loaded, Binding.BEFORE_HELM, run.before)
    if before and run.releases == 0 and not run.verify:
        return Next(step=Step.BEFORE_HELM, scope=run.trigger, hook=before)
    if run.releases == 0:
        return Next(step=Step.UPGRADE_RELEASE, scope=run.trigger)
    after = hook_at(loaded, Binding.AFTER_HELM, run.after)
    if after and run.releases == 1 and not run.verify:
        return Next(step=Step.AFTER_HELM, scope=run.trigger, hook=after)
    return Next(step=Step.UPGRADE_RELEASE, scope=run.trigger)


def moved(desired: Desired, progress: Progress) -> bool:
    """Say whether a release is left in another place than the one the object asks for.

    The place of an object cannot change: it was replaced by another object of its name.
    """
    before, now = progress.placed, desired.placement
    return before is not None and now is not None and progress.released is not None and not before.same_place(now)


def place_of(desired: Desired, progress: Progress) -> Placement | None:
    """Return where the release is, or would be: what was recorded counts, and what the object says only without it."""
    return progress.placed or desired.placement


def disabled(desired: Desired, progress: Progress) -> Disabled | None:
    """Return what a module's script said against what is wanted now; None if it said nothing of that."""
    said, artifact = progress.disabled, progress.artifact
    if said is None or artifact is None or artifact.source != desired.source:
        return None
    return said if (said.digest, said.settings) == (artifact.digest, desired.settings) else None


def _rest(desired: Desired, progress: Progress, hold: Hold) -> Next:
    """Return the next step towards a package that stands still; the release goes only if the object says so."""
    if progress.watching:
        return Next(step=Step.UNWATCH)
    if progress.active or progress.startup:
        return Next(step=Step.STOP, scope=Scope.SCHEDULE)
    if desired.delete_on_disable and progress.released is not None:
        return _teardown(desired, progress) or Next(step=Step.WAIT, hold=hold)
    return Next(step=Step.WAIT, hold=hold)


def _removal(desired: Desired, progress: Progress) -> Next:
    if progress.watching:
        return Next(step=Step.UNWATCH)
    abandoned = desired.abandon and desired.uid == progress.owner
    if not abandoned:
        step = _teardown(desired, progress)
        if step is not None:
            return step
    if not progress.cleaned:
        return Next(step=Step.CLEAN_UP)
    return Next(step=Step.RELEASE_FINALIZER)


def _teardown(desired: Desired, progress: Progress) -> Next | None:
    """Return the next step towards no release, None when there is nothing left to take away."""
    content = progress.released or (progress.loaded.artifact if progress.loaded else None)
    if content is None:
        return None
    loaded = progress.loaded
    if loaded is None or loaded.artifact.digest != content.digest:
        return Next(step=Step.LOAD)
    if loaded.programs and loaded.bare is desired.hooks_allowed:
        return Next(step=Step.LOAD)
    teardown = progress.teardown
    before = hook_at(loaded, Binding.BEFORE_DELETE_HELM, teardown.before)
    if before and progress.released is not None and not teardown.uninstalled:
        return Next(step=Step.BEFORE_DELETE_HELM, scope=Scope.SCHEDULE, hook=before)
    if not teardown.uninstalled:
        return Next(step=Step.UNINSTALL_RELEASE, scope=Scope.SCHEDULE)
    after = hook_at(loaded, Binding.AFTER_DELETE_HELM, teardown.after)
    if after:
        return Next(step=Step.AFTER_DELETE_HELM, scope=Scope.SCHEDULE, hook=after)
    return None


def follows(loaded: Loaded) -> bool:
    """Say whether a hook of the package has kubernetes bindings."""
    return any(hook.kubernetes for hook in loaded.hooks)


def hook_at(loaded: Loaded, binding: Binding, index: int) -> Hook | None:
    """Return the hook of ``binding`` at ``index`` in running order, None past the last."""
    hooks = hooks_for(loaded.hooks, binding)
    return hooks[index] if index < len(hooks) else None


def content_to_load(desired: Desired, progress: Progress) -> Artifact | None:
    """Return which content a LOAD step reads: the released one when tearing down, else the installed one."""
    if tearing_down(desired, progress):
        return progress.released or progress.artifact
    return progress.artifact


def tearing_down(desired: Desired, progress: Progress) -> bool:
    """Say whether a LOAD step is for taking a release away."""
    ending = progress.removing or desired.deleting or desired.suspended or moved(desired, progress)
    return ending or disabled(desired, progress) is not None
