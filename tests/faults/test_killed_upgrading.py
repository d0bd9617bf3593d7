"""The worker is killed -9 at every step of an upgrade; one kill hits a package at each."""

from __future__ import annotations

import pytest
from faults.points import RECOVERED_WITHIN, WAIT_SECONDS, Field, Placed, Point

RECORD = "PUT .*{record}$"
REPOSITORY = "GET .*{repository}$"

POINTS = [
    Point(name="observe", at="GET .*{app}$"),
    Point(name="download", passing=(REPOSITORY,), at=REPOSITORY, activity="package.download"),
    Point(name="load", hook="config", activity="package.download"),
    Point(name="apply-settings", at=RECORD, activity="package.apply_settings"),
    Point(name="settings-applied", at=RECORD, answered=True, activity="package.apply_settings"),
    Point(name="startup", hook="onStartup", activity="hook.run", again="onStartup"),
    Point(name="before-helm", hook="beforeHelm", activity="hook.run", again="beforeHelm"),
    Point(
        name="before-helm-journalled",
        at=RECORD,
        after="beforeHelm finished 2.0.0",
        answered=True,
        activity="hook.run",
    ),
    Point(name="release", passing=(RECORD,), at=RECORD, activity="helm.upgrade_release"),
    Point(
        name="pending-upgrade",
        at="(POST|PUT|PATCH) .*/configmaps/{release}$",
        activity="helm.upgrade_release",
        status="pending-upgrade",
    ),
    Point(name="awaiting", gated=True, activity="helm.upgrade_release", status="deployed"),
    Point(name="after-helm", hook="afterHelm", activity="hook.run", again="afterHelm"),
    Point(
        name="after-helm-journalled",
        at=RECORD,
        after="afterHelm finished 2.0.0",
        answered=True,
        activity="hook.run",
    ),
    Point(name="status-written", at="PATCH .*{app}/status$", after="afterHelm finished 2.0.0", answered=True),
]


@pytest.fixture(scope="module")
async def killed(field: Field) -> Field:
    """Every package at its point of the upgrade, the worker killed and started again, everything ready."""

    async def ready(one: Placed) -> None:
        await field.installation.ready(one.point.name, "2.0.0", within=WAIT_SECONDS)

    await field.place(POINTS, "1.0.0", "2.0.0")
    field.start()
    await field.install("1.0.0")
    await field.reach(lambda one: one.want("2.0.0", settings={"greeting": "again"}))
    await field.kill_and_restart(ready)
    return field


@pytest.mark.parametrize("point", [pytest.param(one, id=one.name) for one in POINTS])
async def test_an_upgrade_goes_on(killed: Field, point: Point) -> None:
    one = killed.placed[point.name]
    assert await one.revisions() == (point.revisions or ("superseded", "deployed"))
    config = await killed.installation.get("ConfigMap", one.names["release"])
    assert config is not None
    assert config["data"] == {"version": "2.0.0", "greeting": "again"}
    assert one.subject.journal() == one.expected_journal("onStartup", "beforeHelm", "afterHelm")


def test_all_upgrades_go_on_in_time(killed: Field) -> None:
    assert killed.seconds <= RECOVERED_WITHIN
