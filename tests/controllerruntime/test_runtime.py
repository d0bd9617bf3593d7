"""The controller runtime over ports in memory: who is called when, and what a failure does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from controllerruntime.memory import Controller, MemoryEntities, MemoryExternal

from support.waiting import eventually
from windlass.controllerruntime import ControllerRuntime, IController, Informer, Operation, Owner, owned
from windlass.domain.errors import PermanentError, Reason, TransientError

KIND = "Route"
LONG = 3600.0


def made_for(key: str, name: str = "thing", kind: str = KIND) -> dict[str, Any]:
    return owned({"metadata": {"name": name}}, Owner(kind=kind, key=key))


def controller_of(primary: MemoryEntities, **options: Any) -> Controller:
    controller = Controller(ControllerRuntime("routes", KIND, primary, **{"resync": LONG, **options}))
    custom: IController = controller
    controller.runtime.set_custom_controller(custom)
    return controller


@asynccontextmanager
async def running(controller: Controller, threadiness: int = 4) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(threadiness, stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


async def test_every_change_of_a_primary_is_looked_at() -> None:
    primary = MemoryEntities(a={}, b={})
    controller = controller_of(primary)
    async with running(controller):
        await eventually(lambda: sorted(controller.synced) == ["a", "b"], 20)
        primary.store("c", {})
        await eventually(lambda: controller.synced[2:] == ["c"], 20)
        primary.store("a", {})
        await eventually(lambda: controller.synced[3:] == ["a"], 20)
        primary.drop("b")
        await eventually(lambda: controller.synced[4:] == ["b"], 20)
        primary.drop("a", Operation.PURGE)
        await eventually(lambda: controller.synced[5:] == ["a"], 20)


async def test_a_replay_of_what_is_known_says_nothing() -> None:
    primary = MemoryEntities(a={}, b={})
    controller = controller_of(primary)
    async with running(controller):
        await eventually(lambda: len(controller.synced) == 2, 20)
        primary.repeat()
        primary.store("c", {})
        await eventually(lambda: "c" in controller.synced, 20)
    assert sorted(controller.synced) == ["a", "b", "c"]


async def test_a_delete_that_nobody_told_shows_in_the_next_picture() -> None:
    primary = MemoryEntities(a={}, b={})
    controller = controller_of(primary)
    async with running(controller):
        await eventually(lambda: len(controller.synced) == 2, 20)
        primary.silent = True
        primary.drop("a")
        primary.silent = False
        primary.repeat()
        await eventually(lambda: controller.synced[2:] == ["a"], 20)


async def test_what_expired_without_a_trace_is_found_by_the_resync() -> None:
    primary = MemoryEntities(a={}, b={})
    secondary = MemoryEntities("bucket made", made=made_for("b", "made"))
    controller = controller_of(primary, secondaries=[secondary], resync=0.1)
    async with running(controller):
        await eventually(lambda: {"a", "b"} <= set(controller.synced), 20)
        primary.silent = secondary.silent = True
        primary.drop("a")
        secondary.drop("made")
        before = len(controller.calls)
        await eventually(lambda: {"sync a", "secondary made"} <= set(controller.calls[before:]), 20)
        # What is gone is not looked at with every resync from then on.
        before = len(controller.calls)
        await eventually(lambda: controller.calls[before:].count("sync b") > 3, 20)
        assert "sync a" not in controller.calls[before:]


async def test_a_resync_looks_at_every_primary_and_sweeps() -> None:
    controller = controller_of(MemoryEntities(a={}, b={}), resync=0.05)
    async with running(controller):
        await eventually(lambda: controller.calls.count("garbage") > 3, 20)
        await eventually(lambda: controller.synced.count("a") > 3 and controller.synced.count("b") > 3, 20)


async def test_a_secondary_that_changes_brings_its_primary() -> None:
    primary, secondary = MemoryEntities(a={}, b={}), MemoryEntities("bucket made")
    tertiary = MemoryEntities("bucket read")
    controller = controller_of(primary, secondaries=[secondary], tertiaries=[tertiary])
    async with running(controller):
        await eventually(lambda: sorted(controller.synced) == ["a", "b"], 20)
        secondary.store("x", made_for("a"))
        await eventually(lambda: controller.synced[2:] == ["a"], 20)
        secondary.store("x", made_for("b"))  # it has another owner now: both have something to do
        await eventually(lambda: sorted(controller.synced[3:]) == ["a", "b"], 20)
        secondary.drop("x")  # a marker has no content: what was last known says whose it was
        await eventually(lambda: controller.synced[5:] == ["b"], 20)
        secondary.store("y", {"metadata": {"name": "nobody's"}})
        secondary.store("z", made_for("a", kind="Other"))
        secondary.store("bad", made_for("no key"))
        tertiary.store("t", made_for("a"))
        secondary.store("w", made_for("a"))
        await eventually(lambda: controller.synced[6:] == ["a"], 20)


async def test_a_failing_key_is_tried_again_and_holds_up_nobody() -> None:
    primary = MemoryEntities(**{f"k{n}": {} for n in range(50)}, bad={})
    tries = 0

    async def handle(key: str) -> None:
        nonlocal tries
        if key == "bad" and (tries := tries + 1) < 8:
            raise RuntimeError(f"try {tries}")

    controller = controller_of(primary)
    controller.handle = handle
    async with running(controller, threadiness=1):
        await eventually(lambda: {f"k{n}" for n in range(50)} <= set(controller.synced), 20)
        await eventually(lambda: tries == 8, 20)
        primary.store("k1", {})
        await eventually(lambda: controller.synced[-1] == "k1", 20)
    assert tries == 8, "once it has worked, nobody tries again"


async def test_a_key_that_hangs_holds_up_one_worker() -> None:
    primary = MemoryEntities(hangs={})
    released = asyncio.Event()

    async def handle(key: str) -> None:
        if key == "hangs":
            await released.wait()

    controller = controller_of(primary)
    controller.handle = handle
    async with running(controller, threadiness=2):
        await eventually(lambda: controller.synced == ["hangs"], 20)
        for n in range(30):
            primary.store(f"k{n}", {})
            primary.store("hangs", {"n": n})
        await eventually(lambda: len(controller.synced) == 31, 20)
        released.set()
        await eventually(lambda: controller.synced[31:] == ["hangs"], 20)


async def test_never_two_workers_on_one_key_and_never_more_than_asked_for() -> None:
    primary = MemoryEntities()
    working: list[str] = []
    most = 0

    async def handle(key: str) -> None:
        nonlocal most
        assert key not in working
        working.append(key)
        most = max(most, len(working))
        await asyncio.sleep(0.001)
        working.remove(key)

    controller = controller_of(primary)
    controller.handle = handle
    async with running(controller, threadiness=3):
        for n in range(300):
            primary.store(f"k{n % 7}", {"n": n})
            await asyncio.sleep(0)
        await eventually(lambda: not working and set(controller.synced) == {f"k{n}" for n in range(7)}, 20)
    assert most == 3


async def test_a_key_later_is_a_key_later() -> None:
    controller = controller_of(MemoryEntities())
    async with running(controller):
        loop = asyncio.get_running_loop()
        began = loop.time()
        controller.runtime.enqueue_key_after("later", Operation.PUT, 30)
        controller.runtime.enqueue_key_after("later", Operation.PUT, 0.3)
        controller.runtime.enqueue_key("now", Operation.PUT)
        await eventually(lambda: controller.synced == ["now", "later"], 20)
        assert loop.time() - began >= 0.3
        controller.runtime.enqueue_key("not a key", Operation.PUT)
        controller.runtime.enqueue_key("end", Operation.PUT)
        await eventually(lambda: controller.synced[2:] == ["end"], 20)


async def test_it_starts_and_stops_in_order() -> None:
    calls: list[str] = []
    primary, secondary = MemoryEntities(a={}), MemoryEntities("bucket made")
    external = MemoryExternal(calls)
    objects = MemoryEntities("Service")
    for source in (objects, secondary, primary):
        source.ready.clear()
    informer = Informer(objects)
    controller = controller_of(
        primary, secondaries=[secondary], tertiary_informers=[informer], external=[external], events=None
    )
    controller.calls = calls
    released = asyncio.Event()

    async def handle(_key: str) -> None:
        await released.wait()
        calls.append("worked")

    controller.handle = handle
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(2, stop))
    for source in (objects, secondary, primary):
        await asyncio.sleep(0.05)
        assert calls == ["open"], "nothing begins before every picture is complete"
        source.ready.set()
    await eventually(lambda: calls == ["open", "garbage", "sync a"], 20)
    primary.store("b", {})
    await eventually(lambda: calls[3:] == ["sync b"], 20)
    primary.store("c", {})
    stop.set()
    await asyncio.sleep(0.05)
    controller.runtime.enqueue_key("d", Operation.PUT)
    assert not task.done(), "current keys end first"
    released.set()
    await asyncio.wait_for(task, 20)
    assert calls[4:] == ["worked", "worked", "clean", "close"]


async def test_what_does_not_end_in_time_is_cancelled() -> None:
    controller = controller_of(MemoryEntities(a={}), stop_timeout=0.1)

    async def handle(_key: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            controller.calls.append("cancelled")

    controller.handle = handle
    async with running(controller) as stop:
        await eventually(lambda: controller.synced == ["a"], 20)
        stop.set()
    assert controller.calls[-2:] == ["cancelled", "clean"]


async def test_a_cancelled_run_cleans_up_without_waiting() -> None:
    controller = controller_of(MemoryEntities(a={}))

    async def handle(_key: str) -> None:
        await asyncio.sleep(3600)

    controller.handle = handle
    task = asyncio.create_task(controller.run(1, asyncio.Event()))
    await eventually(lambda: controller.synced == ["a"], 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert controller.calls[-1] == "clean"


async def test_a_stop_before_the_pictures_are_complete_is_a_stop() -> None:
    primary = MemoryEntities(a={})
    primary.ready.clear()
    controller = controller_of(primary)
    async with running(controller) as stop:
        await asyncio.sleep(0.05)
        stop.set()
    assert controller.calls == ["clean"]


async def test_a_start_without_pictures_is_given_up_and_says_why() -> None:
    primary = MemoryEntities("bucket routes")
    primary.ready.clear()
    primary.broken = TransientError(Reason.API_UNAVAILABLE, "nobody answers")
    controller = controller_of(primary, sync_timeout=0.2)
    with pytest.raises(TransientError, match=r"bucket routes \(nobody answers\)"):
        await controller.run(1, asyncio.Event())
    assert controller.calls == ["clean"]


async def test_a_source_that_is_lost_for_good_ends_the_run() -> None:
    primary = MemoryEntities(a={})
    controller = controller_of(primary)
    task = asyncio.create_task(controller.run(1, asyncio.Event()))
    await eventually(lambda: controller.synced == ["a"], 20)
    primary.fail(PermanentError(Reason.FORBIDDEN, "shut out"))
    with pytest.raises(PermanentError, match="shut out"):
        await asyncio.wait_for(task, 20)
    assert controller.calls[-1] == "clean"


async def test_a_broken_handler_of_secondaries_or_sweep_ends_nothing() -> None:
    primary, secondary = MemoryEntities(a={}), MemoryEntities("bucket made")
    controller = controller_of(primary, secondaries=[secondary], resync=0.1)

    async def broken(*_: object) -> None:
        raise ValueError("a bug")

    controller.handle_secondary = broken  # type: ignore[method-assign]
    controller.garbage_secondaries = broken  # type: ignore[method-assign]
    async with running(controller):
        secondary.store("x", made_for("a"))
        await eventually(lambda: controller.synced.count("a") > 3, 20)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": ""}, "name"),
        ({"kind": ""}, "kind"),
        ({"resync": 0}, "resync"),
        ({"secondaries": [MemoryEntities(str(n)) for n in range(5)]}, "secondaries"),
        ({"tertiaries": [MemoryEntities(str(n)) for n in range(5)]}, "tertiaries"),
        ({"secondary_informers": [Informer(MemoryEntities())]}, "kube"),
    ],
)
async def test_bad_arguments_are_named(options: dict[str, Any], named: str) -> None:
    given = {"name": "routes", "kind": KIND, "primary": MemoryEntities(), "resync": LONG, **options}
    with pytest.raises(PermanentError, match=f"controller runtime: {named} ") as caught:
        ControllerRuntime(**given)
    assert caught.value.reason is Reason.VALIDATION_FAILED


async def test_run_wants_a_controller_and_workers_and_happens_once() -> None:
    runtime = ControllerRuntime("routes", KIND, MemoryEntities(), resync=LONG)
    with pytest.raises(PermanentError, match="custom controller is not set"):
        await runtime.run(1)
    controller = Controller(runtime)
    runtime.set_custom_controller(controller)
    with pytest.raises(PermanentError, match="is set already"):
        runtime.set_custom_controller(controller)
    with pytest.raises(PermanentError, match="threadiness"):
        await runtime.run(0)
    async with running(controller):
        await eventually(lambda: controller.calls, 20)
    with pytest.raises(PermanentError, match="runs once"):
        await runtime.run(1)
