"""Events: about objects and primaries, sent beside the work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from controllerruntime.memory import MemoryEntities
from controllerruntime.test_runtime import KIND, controller_of, running

from support.waiting import eventually
from windlass.controllerruntime import ControllerRuntime
from windlass.controllerruntime.reasons import MESSAGE_RESOURCE_SYNCED_CREATED, message
from windlass.controllerruntime.recorder import QUEUE
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.entities import Item
from windlass.ports.events import EventNote

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n", "uid": "u"}}


class Clock:
    def now(self) -> float:
        return 5.0


class Log:
    """`EventLog` in memory; fails as often as it is told."""

    def __init__(self) -> None:
        self.notes: list[EventNote] = []
        self.failures: list[Exception] = []

    async def record(self, events: Sequence[EventNote]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.notes.extend(events)


def told(log: Log) -> list[tuple[str, str, str, str, str]]:
    return [(str(one.regarding), one.uid, one.type, one.reason, one.note) for one in log.notes]


async def test_events_about_objects_and_primaries() -> None:
    log = Log()
    controller = controller_of(MemoryEntities(), events=log, clock=Clock(), event_namespace="routes")
    runtime = controller.runtime
    async with running(controller):
        runtime.synced(SERVICE, "created")
        runtime.synced(SERVICE, "updated")
        runtime.synced(SERVICE, "deleted")
        runtime.event(Item(key="a/b", version="1"), "Warning", "Odd", "so it is")
        await eventually(lambda: len(log.notes) == 4, 20)
    assert told(log) == [
        *(
            ("Service/s in n", "u", "Normal", "Synced", f'"s" synced successfully ({change})')
            for change in ("created", "updated", "deleted")
        ),
        ("Route/a/b in routes", "", "Warning", "Odd", "so it is"),
    ]


async def test_what_waits_at_a_stop_is_sent() -> None:
    log = Log()
    controller = controller_of(MemoryEntities(a={}), events=log, clock=Clock())

    async def handle(key: str) -> None:
        controller.runtime.event(Item(key=key, version="1"), "Normal", "Seen", "")

    controller.handle = handle
    async with running(controller):
        await eventually(lambda: controller.synced, 20)
    assert [note.reason for note in log.notes] == ["Seen"]


@pytest.mark.parametrize(("type_", "reason"), [("Loud", "Odd"), ("Normal", ""), ("", "Odd")])
async def test_an_event_has_a_type_and_a_reason(type_: str, reason: str) -> None:
    runtime = ControllerRuntime("r", KIND, MemoryEntities(), resync=1, events=Log(), clock=Clock())
    with pytest.raises(PermanentError, match="an Event has the type Normal or Warning"):
        runtime.event(SERVICE, type_, reason, "text")  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(PermanentError, match="is no Kubernetes object"):
        runtime.event({}, "Normal", "Odd", "text")


async def test_recording_neither_waits_nor_fails() -> None:
    log = Log()
    log.failures = [
        PermanentError(Reason.FORBIDDEN, "never"),
        TransientError(Reason.API_UNAVAILABLE, "later"),
    ]
    controller = controller_of(MemoryEntities(), events=log, clock=Clock())
    async with running(controller):
        for name in ("first", "second"):  # the first is tried again, then given up
            controller.runtime.event(Item(key=name, version="1"), "Normal", "Odd", "")
        await eventually(lambda: [note.regarding.name for note in log.notes] == ["second"], 20)


async def test_too_many_events_are_dropped_not_waited_for() -> None:
    log = Log()
    controller = controller_of(MemoryEntities(), events=log, clock=Clock())
    for _ in range(2 * QUEUE):
        controller.runtime.event(SERVICE, "Normal", "Odd", "")
    async with running(controller):
        await eventually(lambda: len(log.notes) == QUEUE, 20)
        await asyncio.sleep(0)


async def test_what_is_somebody_elses_is_reported_and_refused() -> None:
    log = Log()
    controller = controller_of(MemoryEntities(), events=log, clock=Clock())
    runtime = controller.runtime
    async with running(controller):
        runtime.require_owned(runtime.owned(SERVICE, "a"), "a")
        for theirs in (SERVICE, runtime.owned(SERVICE, "b")):
            with pytest.raises(PermanentError) as caught:
                runtime.require_owned(theirs, "a")
            assert caught.value.reason is Reason.RELEASE_CONFLICT
        await eventually(lambda: len(log.notes) == 2, 20)
    assert told(log)[0][2:] == (
        "Warning",
        "ErrResourceExists",
        'Resource "s" already exists and is not managed by this controller',
    )


def test_names_are_quoted() -> None:
    assert message(MESSAGE_RESOURCE_SYNCED_CREATED, 'a"b') == r'"a\"b" synced successfully (created)'


async def test_decomposing_names_only_owners_of_our_kind() -> None:
    runtime = ControllerRuntime("r", KIND, MemoryEntities(), resync=1)
    assert runtime.decompose_kube_secondary_resource(runtime.owned(SERVICE, "a/b"))[1] == "a/b"
    other = ControllerRuntime("r", "Other", MemoryEntities(), resync=1)
    assert other.decompose_kube_secondary_resource(runtime.owned(SERVICE, "a/b"))[1] == ""
    assert runtime.decompose_kube_secondary_resource(SERVICE) == (SERVICE, "")
