"""The worker is killed -9 at every step of an installation; one kill hits a package at each."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from faults.points import Field, Point
from windlass.domain.ids import FINALIZER

WITHIN = 15.0
"""Seconds from the restart until everything is as desired (design section 8)."""

RECORD_MADE = "POST .*{record}$"
RECORD = "PUT .*{record}$"
ONCE = ("deployed",)

POINTS = [
    Point(name="observe", at="GET .*{app}$"),
    Point(name="add-finalizer", at="PATCH .*{app}$"),
    Point(name="finalizer-added", at="PATCH .*{app}$", answered=True),
    Point(name="download", passing=("PATCH .*{app}$",), at="GET .*{repository}$", activity="package.download"),
    Point(name="install", at=RECORD_MADE),
    Point(name="installed", at=RECORD_MADE, answered=True),
    Point(name="load", hook="config"),
    Point(name="apply-settings", passing=(RECORD_MADE,), at=RECORD),
    Point(name="settings-applied", passing=(RECORD_MADE,), at=RECORD, answered=True),
    Point(name="startup", hook="onStartup", activity="hook.run", again="onStartup"),
    Point(name="before-helm", hook="beforeHelm", activity="hook.run", again="beforeHelm"),
    Point(
        name="before-helm-journalled",
        at=RECORD,
        after="beforeHelm finished 1.0.0",
        answered=True,
        activity="hook.run",
    ),
    Point(
        name="pending-install",
        at="(POST|PUT|PATCH) .*/configmaps/{release}$",
        activity="helm.upgrade_release",
        status="pending-install",
        revisions=("failed", "deployed"),
    ),
    Point(name="awaiting", gated=True, activity="helm.upgrade_release", status="deployed"),
    Point(name="after-helm", hook="afterHelm", activity="hook.run", status="deployed", again="afterHelm"),
    Point(
        name="after-helm-journalled",
        at=RECORD,
        after="afterHelm finished 1.0.0",
        answered=True,
        activity="hook.run",
        status="deployed",
    ),
    Point(
        name="status-written",
        at="PATCH .*{app}/status$",
        after="afterHelm finished 1.0.0",
        answered=True,
        status="deployed",
    ),
]


@pytest.fixture(scope="module")
async def killed(field: Field) -> AsyncIterator[Field]:
    """Every package at its point, the worker killed and started again, everything ready."""
    await field.place(POINTS, "1.0.0")
    field.start()
    began = time.monotonic()
    await field.reach(lambda one: one.want("1.0.0"))
    print("reached", time.monotonic() - began)
    await field.kill()
    began = time.monotonic()
    field.start()
    await field.placed["awaiting"].open_gates()
    for one in field.placed.values():
        await field.installation.ready(one.point.name, "1.0.0", within=60)
        print(one.point.name, time.monotonic() - began)
    yield field


@pytest.mark.parametrize("point", [pytest.param(one, id=one.name) for one in POINTS])
async def test_an_installation_goes_on(killed: Field, point: Point) -> None:
    one = killed.placed[point.name]
    obj = await killed.installation.object(point.name)
    assert obj is not None
    assert FINALIZER in obj["metadata"]["finalizers"]
    found = await killed.installation.release(point.name)
    assert tuple(found[number] for number in sorted(found)) == (point.revisions or ONCE)
    config = await killed.installation.get("ConfigMap", one.names["release"])
    assert config is not None
    assert config["data"]["version"] == "1.0.0"
    expected: list[str] = []
    for binding in ("onStartup", "beforeHelm", "afterHelm") if point.hook or point.after else ():
        expected += [f"{binding} started 1.0.0"] * (2 if point.again == binding else 1)
        expected += [f"{binding} finished 1.0.0"]
    assert one.subject.journal() == expected
