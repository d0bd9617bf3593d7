"""Temporal and the API server are killed under a worker that lives on, and Temporal's database is thrown away."""

from __future__ import annotations

from collections.abc import Sequence

from faults.points import WAIT_SECONDS, Field, Placed, Point
from faults.servers import killed

from support.installation import condition
from support.waiting import eventually
from windlass.devstack.stack import Stack

POINTS = [
    Point(name="before-helm", hook="beforeHelm", activity="hook.run"),
    Point(
        name="pending-install",
        at="(POST|PUT|PATCH) .*/configmaps/{release}$",
        activity="helm.upgrade_release",
        status="pending-install",
    ),
    Point(name="awaiting", gated=True, activity="helm.upgrade_release", status="deployed"),
]

STEADY = [
    Point(name="before-helm", hook="beforeHelm", activity="hook.run"),
    Point(
        name="awaiting",
        gated=True,
        after="beforeHelm finished 1.0.0",
        activity="helm.upgrade_release",
        status="deployed",
    ),
]
"""Points that last until the test ends them, however slow the machine: a hook that waits for a file to go, and a
readiness wait for a pod behind a scheduling gate."""


async def in_the_middle(field: Field, points: Sequence[Point]) -> None:
    """Bring every package to its point in an installation."""
    await field.place(points, "1.0.0")
    field.start()
    await field.reach(lambda one: one.want("1.0.0"))


async def check_installed(field: Field, one: Placed) -> None:
    """Everything is as if nothing had happened, but for a run or a revision that was begun and given up."""
    await field.installation.ready(one.point.name, "1.0.0", within=WAIT_SECONDS)
    *before, newest = await one.revisions()
    assert newest == "deployed"
    assert before in ([], ["failed"])
    journal = one.subject.journal()
    assert not [line for line in journal if "meets" in line], "two runs of hooks of one package met"
    ended = [line.split(" ")[0] for line in journal if " finished " in line]
    assert ended == (["onStartup", "beforeHelm", "afterHelm"] if one.subject.has_hooks else [])


async def test_the_api_server_is_killed_during_installations(own_stack: Stack, own_field: Field) -> None:
    await in_the_middle(own_field, POINTS)
    await killed(own_stack, "kube-apiserver")
    await own_field.let_go()
    for one in own_field.placed.values():
        await check_installed(own_field, one)


async def test_temporal_is_killed_during_installations(own_stack: Stack, own_field: Field) -> None:
    await in_the_middle(own_field, STEADY)
    runs = {name: (await own_field.installation.history(name)).run_id for name in own_field.placed}
    await killed(own_stack, "temporal")

    # What is held can only be let go once Temporal is back, so no step ends while it is away.
    await own_field.let_go()
    for one in own_field.placed.values():
        await check_installed(own_field, one)
        assert await one.revisions() == ("deployed",), "released once"
        assert (await own_field.installation.history(one.point.name)).run_id == runs[one.point.name]
    awaiting = own_field.placed["awaiting"]
    assert awaiting.subject.journal() == awaiting.expected_journal("onStartup", "beforeHelm", "afterHelm")


async def test_a_lost_database_is_rebuilt_by_observing(own_stack: Stack, own_field: Field) -> None:
    installation = own_field.installation
    points = [Point(name="idle", hook="none"), Point(name="paused", hook="none"), Point(name="busy", hook="beforeHelm")]
    await own_field.place(points, "1.0.0", "2.0.0")
    idle, paused, busy = (own_field.placed[point.name] for point in points)
    own_field.start()
    await own_field.install("1.0.0")
    await idle.want("2.0.0")
    await installation.ready("idle", "2.0.0")
    await installation.lifecycles.pause(installation.key("paused"), installation.action("before the storm"))
    await installation.status("paused", lambda status: status["phase"] == "Paused")
    busy.subject.hold("beforeHelm")
    await busy.want("2.0.0")
    await eventually(lambda: busy.subject.wrote("beforeHelm started 2.0.0"), WAIT_SECONDS)
    before = {name: await installation.object(name) for name in ("idle", "paused")}
    journals = {one.point.name: one.subject.journal() for one in (idle, paused)}
    revisions = await idle.revisions()

    # Unlinked while it is open, so that nothing is there when the supervisor starts Temporal again.
    for file in own_stack.data_dir.glob("temporal.db*"):
        file.unlink()
    await killed(own_stack, "temporal")

    for name, was in before.items():
        assert was is not None
        run = was["status"]["workflow"]["runId"]
        now = await installation.status(name, lambda status, run=run: status["workflow"]["runId"] != run, within=60)
        assert condition(now, "Ready") == condition(was, "Ready"), "the same since the same time"
        for field in ("phase", "version", "release", "completed", "digest"):
            assert now["status"].get(field) == was["status"].get(field), field
        assert now["status"]["actions"] == was["status"]["actions"]
    assert idle.subject.journal() == journals["idle"]
    assert paused.subject.journal() == journals["paused"]
    assert await idle.revisions() == revisions

    answer = await installation.lifecycles.resume(installation.key("paused"), installation.action("it is over"))
    assert answer.accepted
    resumed = await installation.ready("paused", "1.0.0")
    assert [action["action"] for action in resumed["status"]["actions"]] == ["pause", "resume"]
    assert paused.subject.journal() == journals["paused"]
    assert await paused.revisions() == ("deployed",)

    await eventually(lambda: busy.subject.journal().count("beforeHelm started 2.0.0") == 2, WAIT_SECONDS)
    busy.subject.go_on()
    await installation.ready("busy", "2.0.0", within=WAIT_SECONDS)
    assert await busy.revisions() == ("superseded", "deployed")
    assert not [line for line in busy.subject.journal() if "meets" in line]
    ended = [line for line in busy.subject.journal() if line.endswith("finished 2.0.0")]
    # That onStartup ran was known to Temporal only: hooks of an unfinished pass run again when its data is lost.
    assert ended == [f"{binding} finished 2.0.0" for binding in ("onStartup", "onStartup", "beforeHelm", "afterHelm")]
