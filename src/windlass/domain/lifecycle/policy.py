"""What people and failures do to a lifecycle: good releases, rejected wishes, holds and breakpoints.

`domain.lifecycle.steps.next_step` knows one wish. This module says which wish that is (`effective`: the object's,
or the good release that is kept in its stead), whether its next step may be begun (`decide`), and what a failure leads
to (`verdict`). All of it is carried in one value, `Control`.

A wish that was rejected is not tried again until the object asks for something else or somebody requests it: the
lifecycle never swings between a bad version and the good one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from windlass.domain.errors import Category, Reason
from windlass.domain.lifecycle.changes import Event, classify
from windlass.domain.lifecycle.steps import (
    OPEN,
    Desired,
    Gate,
    Hold,
    Next,
    OnFailure,
    Progress,
    Step,
    completion_mark,
    next_step,
)
from windlass.domain.packages.model import Artifact, Source

GOOD_KEPT: Final = 10
"""Good releases that can be gone back to: as many as Helm keeps revisions."""


class Cause(StrEnum):
    """Why the lifecycle is held at a step; values are wire values."""

    FAILED = "Failed"
    CANCELLED = "Cancelled"
    BREAKPOINT = "Breakpoint"
    WORKER_LOST = "WorkerLost"


@dataclass(frozen=True, kw_only=True)
class Good:
    """A release whose run ended well: what can be gone back to.

    ``revision`` is Helm's number, 0 for packages without a chart; ``settings`` the keyed digest of the settings; ``at``
    the time its run ended, in seconds since the epoch.
    """

    revision: int
    artifact: Artifact
    settings: str
    at: float = 0.0

    @property
    def mark(self) -> str:
        """Content and settings, as `completion_mark` has them."""
        return completion_mark(self.artifact, self.settings)

    @property
    def text(self) -> str:
        """The release as people read it: ``revision 3 (1.0.0)``."""
        return f"revision {self.revision} ({self.artifact.exact})"


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A version with settings that is not tried any more, and why; ``step`` is empty if a person rejected it."""

    source: Source | None
    settings: str
    step: str = ""
    reason: str = ""
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Held:
    """The step at which the lifecycle waits for an action, and why."""

    step: str
    cause: Cause
    reason: str = ""
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Passing:
    """A step, by its label, that is passed over when it is reached, while the content is still that of ``digest``.

    Of a hold that outlived its workflow the step is known, and not how far its run had come: the run begins anew.
    ``why`` is the text for the conditions.
    """

    step: str
    digest: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Control:
    """What people and failures have said about one life.

    ``good`` holds the newest last. ``rejected`` and ``target`` come and go together: the wish that is not tried, and
    the good release that is kept in its stead. ``passing`` is a step that a person has allowed to be left out.
    """

    good: tuple[Good, ...] = ()
    rejected: Rejected | None = None
    target: Good | None = None
    held: Held | None = None
    breakpoints: tuple[Step, ...] = ()
    passing: Passing | None = None


FREE: Final = Control()

_UNSTOPPABLE: Final = frozenset({Step.ADOPT, Step.CLEAN_UP, Step.RELEASE_FINALIZER, Step.WAIT, Step.FINISH})
"""Knowing whose life it is, and the end of a removal, in its order: nobody holds these up."""

BREAKABLE: Final = {
    "download": Step.DOWNLOAD,
    "install": Step.INSTALL,
    "load": Step.LOAD,
    "settings": Step.APPLY_SETTINGS,
    "startup": Step.STARTUP,
    "beforeHelm": Step.BEFORE_HELM,
    "run": Step.UPGRADE_RELEASE,
    "afterHelm": Step.AFTER_HELM,
    "stop": Step.STOP,
    "rollback": Step.ROLL_BACK,
    "beforeDeleteHelm": Step.BEFORE_DELETE_HELM,
    "uninstall": Step.UNINSTALL_RELEASE,
    "afterDeleteHelm": Step.AFTER_DELETE_HELM,
}
"""Steps that a breakpoint can stand before, under the names that people give them."""

UPGRADING: Final = frozenset(
    {Step.LOAD, Step.APPLY_SETTINGS, Step.STARTUP, Step.BEFORE_HELM, Step.UPGRADE_RELEASE, Step.AFTER_HELM}
)
"""Steps whose failure speaks against a version and its settings. One that cannot be fetched has touched nothing yet."""

_OTHERWISE: Final = frozenset(
    {
        Reason.API_UNAVAILABLE,
        Reason.API_CONFLICT,
        Reason.INTERRUPTED,
        Reason.LEASE_LOST,
        Reason.WORKER_LOST,
        Reason.STATE_LOST,
        Reason.STATE_REJECTED,
        Reason.DIGEST_MISMATCH,
        Reason.REPOSITORY_NOT_FOUND,
        Reason.DOWNLOAD_FAILED,
        Reason.RELEASE_FOREIGN,
        Reason.INTERNAL,
    }
)
"""Failures of what a package runs on: an API server that restarts must not send every upgrade back."""

_HOOKS: Final = frozenset(
    {Step.STARTUP, Step.BEFORE_HELM, Step.AFTER_HELM, Step.BEFORE_DELETE_HELM, Step.AFTER_DELETE_HELM}
)
_NOT_READY: Final = frozenset({Reason.READINESS_TIMEOUT.value, Reason.RESOURCE_FAILED.value})


def breakpoint_of(name: str) -> Step | None:
    """Return the step that ``name`` means, by its short name or its own; case does not matter. None if unknown."""
    short = {key.lower(): step for key, step in BREAKABLE.items()}
    whole = {step.value.lower(): step for step in BREAKABLE.values()}
    return {**whole, **short}.get(name.strip().lower())


def effective(desired: Desired, control: Control) -> Desired:
    """Return what is brought about: what the object asks for, or the good release that is kept in its stead."""
    target = control.target
    if target is None or not desired.exists:
        return desired
    return replace(desired, source=target.artifact.source, settings=target.settings, pinned=target.artifact)


def decide(desired: Desired, progress: Progress, control: Control, *, paused: bool = False, gate: Gate = OPEN) -> Next:
    """Return the one next step, or why it is not begun; ``desired`` is what the object asks for."""
    step = next_step(effective(desired, control), progress, paused=paused, gate=gate)
    if step.hold is Hold.IDLE and control.target is not None:
        return replace(step, hold=Hold.ROLLED_BACK)
    if step.step in _UNSTOPPABLE:
        return step
    if control.held is not None:
        return Next(step=Step.WAIT, hold=Hold.HELD, blocked=step.label)
    if step.step in control.breakpoints and not (progress.removing and step.step is Step.LOAD):
        return Next(step=Step.WAIT, hold=Hold.BREAKPOINT, blocked=step.label)
    return step


def counts(step: Step, reason: Reason, category: Category) -> bool:
    """Say whether a failure speaks against the version and settings that are being brought about."""
    return step in UPGRADING and reason not in _OTHERWISE and category is not Category.INTERRUPTED


def verdict(
    desired: Desired, progress: Progress, control: Control, step: Step, *, strikes: int, permanent: bool
) -> OnFailure:
    """Say what a failure that `counts` leads to.

    The policy is about leaving what was good: a first installation, a look at what stands, and a rollback are always
    tried again.

    Args:
        desired: what the object asks for, and its policy.
        progress: what is known, the failed step begun.
        control: what people and failures have said before.
        step: the step that failed.
        strikes: how often it has failed in a row, this time included.
        permanent: somebody must act: trying again would end the same way.
    """
    if not control.good or control.target is not None or progress.removing or desired.deleting:
        return OnFailure.RETRY
    if step not in UPGRADING or progress.run.verify or _is(control.good[-1], desired):
        return OnFailure.RETRY
    return desired.on_failure if permanent or strikes >= desired.attempts else OnFailure.RETRY


def judged(
    desired: Desired, progress: Progress, control: Control, failed: Held, step: Step, *, strikes: int, permanent: bool
) -> Control:
    """Return ``control`` after a failure that `counts`; arguments as for `verdict`, ``failed`` says what failed."""
    decision = verdict(desired, progress, control, step, strikes=strikes, permanent=permanent)
    target = last_good(control, desired)
    if decision is OnFailure.ROLLBACK and target is not None:
        rejected = Rejected(
            source=desired.source,
            settings=desired.settings,
            step=failed.step,
            reason=failed.reason,
            message=failed.message,
            at=failed.at,
        )
        return reject(control, rejected, target)
    return replace(control, held=failed) if decision is OnFailure.HOLD else control


def remember(control: Control, good: Good) -> Control:
    """Return ``control`` with one more good release, the newest; of equal ones only the newest is kept."""
    newest = control.good[-1] if control.good else None
    if newest is not None and (newest.mark, newest.revision) == (good.mark, good.revision):
        good = newest
    others = tuple(one for one in control.good if one.mark != good.mark)
    target = good if control.target is not None and control.target.mark == good.mark else control.target
    return replace(control, good=(*others, good)[-GOOD_KEPT:], target=target)


def reject(control: Control, rejected: Rejected, target: Good) -> Control:
    """Return ``control`` with a wish given up for a good release; a hold has served its purpose."""
    return replace(control, rejected=rejected, target=target, held=None, passing=None)


def released(control: Control) -> Control:
    """Return ``control`` with nothing rejected: the object's wish is brought about again."""
    return replace(control, rejected=None, target=None, held=None, passing=None)


def renewed(control: Control, before: Desired, after: Desired) -> Control:
    """Return ``control`` after the object was looked at.

    A rejection ends when something else is asked for than what was rejected; a hold, and the leave to pass a step over,
    end with any change of what is asked for, or of the policy that holds.
    """
    rejected = control.rejected
    if rejected is not None and (rejected.source, rejected.settings) != (after.source, after.settings):
        control = released(control)
    if classify(before, after) is not Event.NONE or before.on_failure is not after.on_failure:
        control = replace(control, held=None, passing=None)
    return control


def passed_over(control: Control, progress: Progress, held: Held, why: str) -> Control:
    """Return ``control`` with the hold ended, and the held step to be passed over once the run comes to it again."""
    passing = Passing(step=held.step, digest=_digest(progress), why=why)
    return replace(control, held=None, passing=passing)


def passes(control: Control, progress: Progress, step: Next) -> Passing | None:
    """Return the leave to pass ``step`` over, None if there is none: content that was not held is tried."""
    passing = control.passing
    mine = passing is not None and (passing.step, passing.digest) == (step.label, _digest(progress))
    return passing if mine else None


def settled(control: Control, progress: Progress) -> Control:
    """Return ``control`` after a step; at the end of a run there is nothing left to pass over."""
    return replace(control, passing=None) if progress.run.complete and not progress.removing else control


def last_good(control: Control, desired: Desired) -> Good | None:
    """Return the newest good release that is not what the object asks for, None if there is none."""
    return next((good for good in reversed(control.good) if not _is(good, desired)), None)


def good_revision(control: Control, revision: int) -> Good | None:
    """Return the good release with Helm's number ``revision``, None if it is not known (any more)."""
    return next((good for good in control.good if good.revision == revision), None)


def step_of(label: str) -> Step:
    """Return the step of a label (`windlass.domain.lifecycle.steps.Next.label`)."""
    return Step(label.partition(" ")[0])


def why_not_skipped(step: Step, reason: str, held: Held | None) -> str:
    """Say why the failed ``step`` may not be skipped; empty if it may.

    Hooks may; the wait for readiness may; a release that could not be applied may under the policy `hold` only, where
    a person has seen what stands. Nothing after the other steps can be done without them.
    """
    if step in _HOOKS:
        return ""
    if step is not Step.UPGRADE_RELEASE:
        return f"nothing after {step.value} can be done without it"
    if held is not None and held.cause is Cause.CANCELLED:
        return "the release was cancelled, it may be half made: request retry or rollback"
    if held is not None and held.cause is Cause.WORKER_LOST:
        return "its worker was lost, the release may be half made: request retry or rollback"
    if reason in _NOT_READY or held is not None:
        return ""
    return "the release is not applied: only with spec.upgrade.onFailure hold may it be left as it is"


def _digest(progress: Progress) -> str:
    return progress.artifact.digest if progress.artifact else ""


def _is(good: Good, desired: Desired) -> bool:
    return (good.artifact.source, good.settings) == (desired.source, desired.settings)
