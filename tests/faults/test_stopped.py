"""The worker is stopped with SIGTERM in the middle of its work: it ends in order, and the next one goes on."""

from __future__ import annotations

import pytest
from faults.points import WAIT_SECONDS, Field, Placed, Point

POINTS = [
    Point(name="apply-settings", at="POST .*{record}$"),
    Point(name="before-helm", hook="beforeHelm", activity="hook.run", again="beforeHelm"),
    Point(
        name="pending-install",
        at="(POST|PUT|PATCH) .*/configmaps/{release}$",
        activity="helm.upgrade_release",
        status="pending-install",
        revisions=("failed", "deployed"),
    ),
    Point(name="awaiting", gated=True, activity="helm.upgrade_release", status="deployed"),
]


@pytest.fixture(scope="module")
async def stopped(field: Field) -> Field:
    """Every package in the middle of its installation, the worker stopped and started again, everything ready."""

    async def ready(one: Placed) -> None:
        await field.installation.ready(one.point.name, "1.0.0", within=WAIT_SECONDS)

    await field.place(POINTS, "1.0.0")
    field.start()
    await field.reach(lambda one: one.want("1.0.0"))
    await field.stop_and_restart(ready)
    return field


def test_the_worker_ends_in_order(stopped: Field) -> None:
    assert stopped.exit_code == 0
    log = stopped.installation.log.read_text()
    assert "worker stopped" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("point", [pytest.param(one, id=one.name) for one in POINTS])
async def test_the_next_worker_goes_on(stopped: Field, point: Point) -> None:
    one = stopped.placed[point.name]
    assert await one.revisions() == (point.revisions or ("deployed",))
    assert one.subject.journal() == one.expected_journal("onStartup", "beforeHelm", "afterHelm")
