"""What to do with a Helm release as it was found: a pure decision with one row for every state.

Helm keeps each revision of a release as one record. A record that a killed operation left ``pending-*`` locks the
release for Helm; it is *unlocked* by marking it failed, never by deleting what it put into the cluster: a volume
claim may already hold data, and the next operation adopts the release's own objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEPLOYED: Final = "deployed"
FAILED: Final = "failed"
SUPERSEDED: Final = "superseded"
UNINSTALLED: Final = "uninstalled"
UNINSTALLING: Final = "uninstalling"
PENDING: Final = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})
"""Statuses under which Helm refuses every further operation on the release."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One stored record: its number, Helm's word for its status, and whether its leftovers were already deleted."""

    number: int
    status: str
    swept: bool = False


class Heal(StrEnum):
    """What must happen before Helm can work on the release again."""

    NOTHING = "nothing"
    UNLOCK = "unlock"  # mark the newest record failed
    FINISH_UNINSTALL = "finish-uninstall"  # run the interrupted uninstall once more


class Operation(StrEnum):
    """The one Helm operation that leads to the desired release."""

    NONE = "none"
    INSTALL = "install"
    REINSTALL = "reinstall"  # install over records that never became a working release
    UPGRADE = "upgrade"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decision; ``why`` is for logs and for `windlass.ports.ReleaseOutcome.healed`."""

    heal: Heal
    operation: Operation
    why: str


def plan(history: Sequence[Revision], *, up_to_date: bool, absent: Sequence[str]) -> Plan:
    """Decide on the stored revisions of one release, oldest first.

    Args:
        history: every stored revision in ascending order; empty if there is no release.
        up_to_date: the newest revision was made from exactly the desired chart and values.
        absent: objects of the newest manifest that the cluster lacks (only looked for when ``up_to_date``).
    """
    if not history:
        return Plan(heal=Heal.NOTHING, operation=Operation.INSTALL, why="no release")
    newest = history[-1]
    where = f"revision {newest.number} is {newest.status}"
    if newest.status == DEPLOYED:
        return _refresh(up_to_date=up_to_date, absent=absent)
    if newest.status == UNINSTALLING:
        return Plan(heal=Heal.FINISH_UNINSTALL, operation=Operation.INSTALL, why=f"{where}: uninstalled again")
    heal = Heal.UNLOCK if newest.status in PENDING else Heal.NOTHING
    if newest.status == UNINSTALLED or not has_succeeded(history):
        return Plan(heal=heal, operation=Operation.REINSTALL, why=f"{where}: installed over it")
    return Plan(heal=heal, operation=Operation.UPGRADE, why=f"{where}: upgraded from the last good revision")


def _refresh(*, up_to_date: bool, absent: Sequence[str]) -> Plan:
    if not up_to_date:
        return Plan(heal=Heal.NOTHING, operation=Operation.UPGRADE, why="chart or values differ")
    if absent:
        return Plan(heal=Heal.NOTHING, operation=Operation.UPGRADE, why=f"absent: {', '.join(absent)}")
    return Plan(heal=Heal.NOTHING, operation=Operation.NONE, why="unchanged")


def has_succeeded(history: Sequence[Revision]) -> bool:
    """Say whether any revision ever became a working release.

    Helm upgrades only from such a revision; without one it wants an install.
    """
    return any(revision.status in {DEPLOYED, SUPERSEDED} for revision in history)


def unswept(history: Sequence[Revision]) -> tuple[Revision, ...]:
    """Return the unfinished revisions below the newest whose leftovers still have to be looked for.

    Helm compares a new manifest with the last good one only, so what an unfinished revision created beside it would
    stay in the cluster for ever.
    """
    return tuple(revision for revision in history[:-1] if revision.status == FAILED and not revision.swept)


def surplus(history: Sequence[Revision], history_max: int) -> tuple[Revision, ...]:
    """Return the oldest revisions that must go so that one more fits into ``history_max``; the newest always stays."""
    return tuple(history[: max(0, min(len(history) - 1, len(history) + 1 - history_max))])


def created_by(history: Sequence[Revision]) -> tuple[Revision, ...]:
    """Return the revisions below the newest that may own objects the newest does not name: unfinished and last good.

    Helm's uninstall deletes the objects of the newest revision only. While that one is unfinished, the last good
    revision's objects are all still there.
    """
    below = history[:-1]
    good = [revision for revision in below if revision.status in {DEPLOYED, SUPERSEDED}][-1:]
    if history and history[-1].status == DEPLOYED:
        good = []
    return (*good, *unswept(history))
