"""The steps of an installation at which the worker is killed, and what must be true afterwards."""

from __future__ import annotations

from faults.points import WAIT_SECONDS, Field, Placed, Point

from windlass.domain.ids import FINALIZER

RECORD_MADE = "POST .*{record}$"
RECORD = "PUT .*{record}$"
HOOKS_RAN = (RECORD_MADE, RECORD, RECORD)
"""Settings, then the journals of onStartup and beforeHelm; what follows is the release's own."""

POINTS = [
    Point(name="observe", at="GET .*{app}$"),
    Point(name="add-finalizer", at="PATCH .*{app}$"),
    Point(name="finalizer-added", at="PATCH .*{app}$", answered=True),
    Point(name="download", passing=("PATCH .*{app}$",), at="GET .*{repository}$", activity="package.download"),
    Point(name="load", hook="config", activity="package.download"),
    Point(name="apply-settings", at=RECORD_MADE, activity="package.apply_settings"),
    Point(name="settings-applied", at=RECORD_MADE, answered=True, activity="package.apply_settings"),
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
        name="release",
        passing=HOOKS_RAN,
        at=RECORD,
        hooks=True,
        activity="helm.upgrade_release",
    ),
    Point(
        name="pending-install",
        at="(POST|PUT|PATCH) .*/configmaps/{release}$",
        activity="helm.upgrade_release",
        status="pending-install",
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

ASKED = [point for point in POINTS if not point.answered]
"""Points before the API server has acted, or where a hook or Helm works."""

ANSWERED = [point for point in POINTS if point.answered]
"""Points where the API server has acted and the worker does not know. Such a moment passes and does not come again, so
these are reached in a field of their own."""


async def killed_at(field: Field, points: list[Point]) -> Field:
    """Bring a package to each point, kill the worker, start it again, and return when everything is ready."""

    async def ready(one: Placed) -> None:
        await field.installation.ready(one.point.name, "1.0.0", within=WAIT_SECONDS)

    await field.place(points, "1.0.0")
    field.start()
    await field.reach(lambda one: one.want("1.0.0"))
    await field.kill_and_restart(ready)
    return field


async def check_gone_on(killed: Field, point: Point) -> None:
    """Check that the installation was finished, each effect once."""
    one = killed.placed[point.name]
    obj = await killed.installation.object(point.name)
    assert obj is not None
    assert FINALIZER in obj["metadata"]["finalizers"]
    assert await one.revisions() == (point.revisions or ("deployed",))
    config = await killed.installation.get("ConfigMap", one.names["release"])
    assert config is not None
    assert config["data"]["version"] == "1.0.0"
    assert one.subject.journal() == one.expected_journal("onStartup", "beforeHelm", "afterHelm")
