"""`Control` as it stands in an object's status, and back: what a lifecycle is rebuilt from when Temporal is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from windlass.contracts.objects import HeldStatus, PackageObject, PackageStatus, RejectedStatus, RevisionStatus
from windlass.domain.lifecycle.policy import Cause, Control, Good, Held, Rejected, breakpoint_of
from windlass.domain.lifecycle.steps import Hold, Next
from windlass.domain.packages.model import Artifact, Source

MESSAGE_CAP: Final = 2000
"""Characters of one message in status."""


def revisions(control: Control) -> list[RevisionStatus]:
    """Return the good releases, oldest first."""
    return [_revision(good) for good in control.good]


def rejected(control: Control) -> RejectedStatus | None:
    """Return what is not tried, and what is kept in its stead."""
    wish, target = control.rejected, control.target
    if wish is None or target is None:
        return None
    return RejectedStatus(
        version=wish.source.version if wish.source else "",
        repository=wish.source.repository if wish.source else "",
        settings=wish.settings,
        step=wish.step or None,
        reason=wish.reason,
        message=wish.message[:MESSAGE_CAP],
        at=moment(wish.at),
        instead=_revision(target),
    )


def held(control: Control, step: Next) -> HeldStatus | None:
    """Return where the lifecycle waits for an action; ``step`` is the next one as `domain.lifecycle.policy` decided."""
    if step.hold is Hold.BREAKPOINT:
        return HeldStatus(step=step.blocked, cause=Cause.BREAKPOINT)
    found = control.held
    if found is None:
        return None
    return HeldStatus(
        step=found.step,
        cause=found.cause,
        reason=found.reason or None,
        message=found.message[:MESSAGE_CAP] or None,
        at=moment(found.at),
    )


def control_of(package: PackageObject) -> Control:
    """Return what the status of ``package`` says of an earlier workflow's `Control`."""
    status = package.status
    if status is None:
        return Control()
    name = package.spec.package.name
    wish = status.rejected
    steps = (breakpoint_of(one) for one in status.breakpoints or ())
    return Control(
        good=tuple(_good(one, name) for one in status.revisions or ()),
        rejected=_wish(wish, name) if wish else None,
        target=_good(wish.instead, name) if wish else None,
        # A hold ends with a change of the object, also with one that nobody was there to see.
        held=_held(status) if status.observed_generation == package.metadata.generation else None,
        breakpoints=tuple(step for step in steps if step is not None),
    )


def moment(epoch: float) -> datetime:
    """Return seconds since the epoch as status shows times: whole seconds, UTC."""
    return datetime.fromtimestamp(int(epoch), UTC)


def _revision(good: Good) -> RevisionStatus:
    source = good.artifact.source
    return RevisionStatus(
        revision=good.revision,
        version=good.artifact.exact,
        repository=source.repository,
        digest=good.artifact.digest,
        settings=good.settings,
        at=moment(good.at),
    )


def _good(one: RevisionStatus, package: str) -> Good:
    source = Source(repository=one.repository, package=package, version=one.version)
    return Good(
        revision=one.revision,
        artifact=Artifact(source=source, digest=one.digest),
        settings=one.settings,
        at=one.at.timestamp(),
    )


def _wish(one: RejectedStatus, package: str) -> Rejected:
    return Rejected(
        source=Source(repository=one.repository, package=package, version=one.version),
        settings=one.settings,
        step=one.step or "",
        reason=one.reason,
        message=one.message,
        at=one.at.timestamp(),
    )


def _held(status: PackageStatus) -> Held | None:
    found = status.held
    if found is None or found.cause is Cause.BREAKPOINT:  # the breakpoint itself stands among the others
        return None
    return Held(
        step=found.step,
        cause=found.cause,
        reason=found.reason or "",
        message=found.message or "",
        at=found.at.timestamp() if found.at else 0.0,
    )
