from __future__ import annotations

from activities.fakes import KEY, OWN, Bench, FakeClock

from support.waiting import eventually
from windlass.activities.heartbeat import Beat, heartbeating
from windlass.activities.progress import ProgressReporter
from windlass.activities.status import FIELD_MANAGER, StatusActivities
from windlass.contracts.lifecycle import EventNote
from windlass.contracts.objects import PackageStatus, WorkflowStatus
from windlass.contracts.steps import StatusRequest, StatusResult
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.lifecycle.readiness import Progress
from windlass.ports.kube import Object

STATUS = PackageStatus(
    phase="Running", step="Idle", workflow=WorkflowStatus(id="windlass/package/prod.web", run_id="r1")
)
NOTE = EventNote(type="Warning", reason="LoadFailed", note="why", at=12.5)
LATER = EventNote(reason="Ready", note="version 1 is running", at=13.5)


async def write(bench: Bench, uid: str, *notes: EventNote, ui: str = "") -> StatusResult:
    activities = StatusActivities(bench.kube, bench.objects, bench.events, ui)
    return await bench.run(activities.write, StatusRequest(key=KEY, uid=uid, status=STATUS, notes=notes))


def status(bench: Bench) -> Object:
    obj = bench.kube.peek(OWN)
    assert obj is not None
    return obj.get("status") or {}


async def test_status_is_applied_under_our_name_and_events_are_recorded() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    assert (await write(bench, uid, NOTE, ui="http://ui/namespaces/default")).written
    assert status(bench)["phase"] == "Running"
    assert status(bench)["workflow"]["link"] == (
        "http://ui/namespaces/default/workflows/windlass%2Fpackage%2Fprod.web/r1"
    )
    (note,) = bench.events.notes
    assert (note.regarding, note.uid, note.type, note.reason, note.action, note.at) == (
        OWN,
        uid,
        "Warning",
        "LoadFailed",
        "Idle",
        12.5,
    )
    assert [call.detail for call in bench.kube.calls if call.verb == "apply"] == [FIELD_MANAGER]


async def test_the_object_of_another_life_is_not_written_to() -> None:
    bench = Bench()
    bench.application()
    assert not (await write(bench, "an-earlier-one")).written
    assert status(bench) == {}
    assert "apply" not in bench.kube.verbs()


async def test_no_object_is_no_failure() -> None:
    assert not (await write(Bench(), "u1")).written


async def test_events_that_cannot_be_recorded_do_not_fail_the_status() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    bench.events.failure = TransientError(Reason.API_UNAVAILABLE, "no answer")
    found = await write(bench, uid, NOTE, LATER)
    assert (found.written, found.unrecorded) == (True, (NOTE, LATER)), "they are tried again"
    bench.events.failure = PermanentError(Reason.FORBIDDEN, "no rights")
    assert (await write(bench, uid, NOTE)).unrecorded == (), "nobody is asked again for what is not allowed"


async def test_events_of_an_object_that_is_gone_are_not_tried_again() -> None:
    bench = Bench()
    bench.events.failure = TransientError(Reason.API_UNAVAILABLE, "no answer")
    assert (await write(bench, "u1", NOTE)).unrecorded == ()


async def test_no_ui_is_no_link() -> None:
    bench = Bench()
    uid = bench.application()["metadata"]["uid"]
    await write(bench, uid)
    assert "link" not in status(bench)["workflow"]


# -- progress --------------------------------------------------------------------------------------------------------

READING = Progress(completed=2, remaining=1, waiting_for=("Deployment/web: 0 of 1 available",))


async def test_a_reading_is_in_the_heartbeat_and_the_status_until_it_is_cleared() -> None:
    bench, beat, clock = Bench(), Beat(), FakeClock()
    bench.application(status={"phase": "Installing"})
    reporter = ProgressReporter(bench.kube, clock, KEY, beat)
    clock.time += 1
    await reporter.report(READING)
    assert beat.details == "2 ready, 1 awaited: Deployment/web: 0 of 1 available"
    assert status(bench)["progress"]["completed"] == 2
    assert status(bench)["progress"]["waitingFor"] == ["Deployment/web: 0 of 1 available"]
    await reporter.clear()
    assert [call.detail for call in bench.kube.calls if call.verb == "apply"] == ["windlass-progress"] * 2


async def test_what_was_never_shown_is_not_cleared() -> None:
    bench = Bench()
    bench.application()
    await ProgressReporter(bench.kube, FakeClock(), KEY, Beat()).clear()
    assert bench.kube.verbs() == []


async def test_a_reading_that_cannot_be_shown_fails_nothing() -> None:
    bench, beat, clock = Bench(), Beat(), FakeClock()
    bench.application()
    bench.kube.fail_next("apply", TransientError(Reason.API_UNAVAILABLE, "no answer"))
    reporter = ProgressReporter(bench.kube, clock, KEY, beat)
    clock.time += 1
    await reporter.report(READING)
    assert beat.details


async def test_a_heartbeat_goes_out_within_the_interval_and_carries_what_is_being_done() -> None:
    bench = Bench()
    beats: list[str] = []
    bench.environment.on_heartbeat = lambda *details: beats.append(details[0])

    async def work(text: str) -> None:
        async with heartbeating() as beat:
            beat.details = text
            await eventually(lambda: beats)

    await bench.environment.run(work, "applying")
    assert beats[0] == "applying"
