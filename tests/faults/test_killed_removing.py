"""The worker is killed -9 at every step of a removal; one kill hits a package at each."""

from __future__ import annotations

import pytest
from faults.points import RECOVERED_WITHIN, WAIT_SECONDS, Field, Placed, Point
from temporalio.client import WorkflowExecutionStatus

from support.waiting import eventually
from windlass.domain.ids import package_workflow_id

RECORD = "PUT .*{record}$"

POINTS = [
    Point(name="observe", at="GET .*{app}$"),
    Point(name="before-delete", hook="beforeDeleteHelm", activity="hook.run", again="beforeDeleteHelm"),
    Point(
        name="before-delete-journalled",
        at=RECORD,
        after="beforeDeleteHelm finished 1.0.0",
        answered=True,
        activity="hook.run",
    ),
    Point(
        name="uninstalling",
        at="DELETE .*/configmaps/{release}$",
        activity="helm.uninstall_release",
        status="uninstalling",
    ),
    Point(name="awaiting-gone", lingering=True, activity="helm.uninstall_release"),
    Point(name="after-delete", hook="afterDeleteHelm", activity="hook.run", again="afterDeleteHelm"),
    Point(
        name="after-delete-journalled",
        at=RECORD,
        after="afterDeleteHelm finished 1.0.0",
        answered=True,
        activity="hook.run",
    ),
    Point(name="clean-up", at="DELETE .*{record}$"),
    Point(name="cleaned-up", at="DELETE .*{record}$", answered=True),
    Point(name="release-finalizer", at="PATCH .*{app}$"),
    Point(name="finalizer-released", at="PATCH .*{app}$", answered=True),
]


@pytest.fixture(scope="module")
async def killed(field: Field) -> Field:
    """Every package at its point of the removal, the worker killed and started again, every lifecycle at its end."""
    installation = field.installation

    async def ended(one: Placed) -> None:
        handle = installation.client.get_workflow_handle(package_workflow_id(installation.key(one.point.name)))

        async def completed() -> bool:
            return (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED

        await eventually(completed, WAIT_SECONDS, what=f"the lifecycle of {one.point.name} has ended")

    await field.place(POINTS, "1.0.0")
    field.start()
    await field.install("1.0.0")
    await field.reach(lambda one: installation.delete(one.point.name))
    await field.kill_and_restart(ended)
    return field


@pytest.mark.parametrize("point", [pytest.param(one, id=one.name) for one in POINTS])
async def test_a_removal_goes_on(killed: Field, point: Point) -> None:
    one = killed.placed[point.name]
    assert await killed.installation.object(point.name) is None
    assert await one.revisions() == ()
    assert await killed.installation.get("ConfigMap", one.names["release"]) is None
    assert await killed.installation.record(point.name) is None
    assert one.subject.journal() == one.expected_journal("beforeDeleteHelm", "afterDeleteHelm")


def test_all_removals_go_on_in_time(killed: Field) -> None:
    assert killed.seconds <= RECOVERED_WITHIN
