from __future__ import annotations

import pytest

from windlass.domain.lifecycle.releases import Heal, Operation, Revision, created_by, plan, surplus, unswept


def history(*statuses: str) -> tuple[Revision, ...]:
    return tuple(Revision(number=number, status=status) for number, status in enumerate(statuses, start=1))


@pytest.mark.parametrize(
    ("stored", "heal", "operation"),
    [
        ((), Heal.NOTHING, Operation.INSTALL),
        (("deployed",), Heal.NOTHING, Operation.UPGRADE),
        (("superseded", "deployed"), Heal.NOTHING, Operation.UPGRADE),
        (("pending-install",), Heal.UNLOCK, Operation.REINSTALL),
        (("failed",), Heal.NOTHING, Operation.REINSTALL),
        (("failed", "failed"), Heal.NOTHING, Operation.REINSTALL),
        (("failed", "pending-install"), Heal.UNLOCK, Operation.REINSTALL),
        (("deployed", "failed"), Heal.NOTHING, Operation.UPGRADE),
        (("deployed", "pending-upgrade"), Heal.UNLOCK, Operation.UPGRADE),
        (("superseded", "deployed", "pending-rollback"), Heal.UNLOCK, Operation.UPGRADE),
        # killed between the two last writes of an upgrade: the old record is superseded, the new one not yet deployed
        (("superseded", "pending-upgrade"), Heal.UNLOCK, Operation.UPGRADE),
        (("deployed", "failed", "pending-upgrade"), Heal.UNLOCK, Operation.UPGRADE),
        (("uninstalling",), Heal.FINISH_UNINSTALL, Operation.INSTALL),
        (("deployed", "uninstalling"), Heal.FINISH_UNINSTALL, Operation.INSTALL),
        (("superseded", "uninstalled"), Heal.NOTHING, Operation.REINSTALL),
        (("superseded",), Heal.NOTHING, Operation.UPGRADE),
        (("deployed", "unknown"), Heal.NOTHING, Operation.UPGRADE),
    ],
)
def test_every_state_has_one_way_on(stored: tuple[str, ...], heal: Heal, operation: Operation) -> None:
    decided = plan(history(*stored), up_to_date=False, absent=())

    assert (decided.heal, decided.operation) == (heal, operation)


def test_an_unchanged_release_is_left_alone() -> None:
    assert plan(history("deployed"), up_to_date=True, absent=()).operation is Operation.NONE


def test_an_absent_object_is_reason_enough_and_is_named() -> None:
    decided = plan(history("deployed"), up_to_date=True, absent=["ConfigMap/a in shop"])

    assert decided.operation is Operation.UPGRADE
    assert "ConfigMap/a in shop" in decided.why


@pytest.mark.parametrize("status", ["failed", "pending-upgrade", "uninstalling", "uninstalled", "unknown"])
def test_the_right_digest_does_not_make_an_unfinished_release_up_to_date(status: str) -> None:
    assert plan(history("superseded", status), up_to_date=True, absent=()).operation is not Operation.NONE


def test_what_was_healed_is_said_with_revision_and_status() -> None:
    assert (
        "revision 2 is pending-upgrade" in plan(history("deployed", "pending-upgrade"), up_to_date=True, absent=()).why
    )


def test_unfinished_revisions_below_the_newest_are_swept_once() -> None:
    stored = (
        Revision(number=1, status="superseded"),
        Revision(number=2, status="failed", swept=True),
        Revision(number=3, status="failed"),
        Revision(number=4, status="deployed"),
    )

    assert [revision.number for revision in unswept(stored)] == [3]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((), []),
        (("deployed",), []),
        (("superseded", "deployed"), []),
        (("superseded", "failed", "deployed"), [2]),
        (("deployed", "failed"), [1]),
        (("superseded", "deployed", "failed", "pending-upgrade"), [2, 3]),
        (("superseded", "uninstalling"), [1]),
    ],
)
def test_an_uninstall_looks_into_every_revision_that_may_own_more(stored: tuple[str, ...], expected: list[int]) -> None:
    assert [revision.number for revision in created_by(history(*stored))] == expected


@pytest.mark.parametrize(
    ("count", "history_max", "expected"),
    [(0, 10, 0), (1, 10, 0), (9, 10, 0), (10, 10, 1), (14, 10, 5), (3, 1, 2), (1, 1, 0)],
)
def test_room_is_made_for_one_more_revision(count: int, history_max: int, expected: int) -> None:
    stored = history(*["failed"] * count)

    assert surplus(stored, history_max) == stored[:expected]
