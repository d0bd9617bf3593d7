"""The place of a package, for steps that cannot do without it."""

from __future__ import annotations

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import PackageKey
from windlass.domain.target import Placement
from windlass.ports.helm import ReleaseRef


def required(placement: Placement | None, key: PackageKey) -> Placement:
    """Return the placement.

    Raises:
        PermanentError: TARGET_REFUSED, there is none: nothing of the package may be done anywhere.
    """
    if placement is None:
        raise PermanentError(
            Reason.TARGET_REFUSED, f"{key} has no target", hint="correct spec.target", actor=Actor.USER
        )
    return placement


def release_of(placement: Placement) -> ReleaseRef:
    """Return the release of a package in its place."""
    return ReleaseRef(target=placement.target, name=placement.release)
