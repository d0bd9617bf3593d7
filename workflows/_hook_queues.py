"""The hook queues of one package, beside its main queue: each strictly first in, first out, all side by side.

What waits in a queue is in the worker's mailbox; here is whether anything does, what failed at its head, and the one
activity that runs. A queue costs nothing while nothing waits in it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow

from windlass.workflows import _transitions as moves
from windlass.workflows._options import HANDOVER_GRACE, HOOK_BEGIN, HOOK_RUN, QUICK

with workflow.unsafe.imports_passed_through():
    from temporalio.exceptions import FailureError, is_cancelled_exception

    from windlass.activities.hooks.events import EventHookActivities
    from windlass.contracts.lifecycle import HookEvents, HookQueue, LifecycleState
    from windlass.contracts.steps import EventsRequest, EventsResult, HoldRequest
    from windlass.domain.ids import PackageKey
    from windlass.temporal.failures import failure_of


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the queues need of the lifecycle they belong to.

    ``may_start`` says whether a run may be begun now.
    """

    key: PackageKey
    read: Callable[[], LifecycleState]
    take_over: Callable[[LifecycleState], None]
    may_start: Callable[[], bool]


class HookQueues:
    """Runs the hooks of every queue in which something waits.

    ``news`` says that a failure has come, gone or been repeated since status was last written.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._running: set[str] = set()
        self._stopping = False
        self._fault: BaseException | None = None
        self.news = False

    def check(self) -> None:
        """Raise what a queue stumbled over: a bug, which has to fail the workflow task and not one queue for good."""
        if self._fault is not None:
            raise self._fault

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._serving)

    @property
    def running(self) -> frozenset[str]:
        """The queues whose hook runs now."""
        return frozenset(self._running)

    # -- what makes them run -------------------------------------------------------------------------------------------

    def rung(self, events: HookEvents) -> None:
        """Something waits; a watch that has failed or works again ends a back-off."""
        queue = self._queue(events.queue)
        failure = queue.failure
        if failure is not None and events.broken:
            failure = failure.model_copy(update={"next_try": 0.0})
        news = {"due": True, "sequence": events.sequence, "failure": failure, "ahead": events.run or queue.ahead}
        self._put(queue.model_copy(update=news))
        self._serve(events.queue, rung=True)

    def opened(self, queues: tuple[str, ...]) -> None:
        """Bindings have been enabled, and something waits in these queues."""
        for name in queues:
            self._put(self._queue(name).model_copy(update={"due": True}))
            self._serve(name)

    def resume(self) -> None:
        """Go on where the run before stood."""
        for queue in self._host.read().hook_queues:
            if queue.due:
                self._serve(queue.name)

    # -- what makes them stop ------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Cancel what runs, wait for its end, and forget what was due: the bindings are disabled next."""
        await self._cancel()
        state = self._host.read()
        if state.hook_queues:
            self._host.take_over(moves.with_hook_queues(state, (), workflow.time()))

    async def hold(self) -> None:
        """Let no run begin ahead of this workflow's word, until one that it begins itself has ended."""
        request = HoldRequest(key=self._host.key, at=workflow.time())
        await workflow.execute_local_activity_method(EventHookActivities.hold, request, **QUICK)

    async def hand_over(self) -> None:
        """Give what runs some time, then cancel it; it stays at its queue's head. Nothing is begun meanwhile."""
        if not self._serving:
            return
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: not self._running,
                timeout=timedelta(seconds=HANDOVER_GRACE),
                timeout_summary="event hooks end before the next run",
            )
        await self._cancel()

    async def _cancel(self) -> None:
        tasks = list(self._serving.values())
        if not tasks:
            return
        self._stopping = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping = False

    # -- one queue -----------------------------------------------------------------------------------------------------

    def _serve(self, name: str, *, rung: bool = False) -> None:
        if name not in self._serving:
            self._serving[name] = asyncio.create_task(self._run_all(name, rung=rung))
            self._serving[name].add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not is_cancelled_exception(error):
            self._fault = error

    async def _run_all(self, name: str, *, rung: bool) -> None:
        try:
            # The first run only: one after the other, local activities would keep the workflow from hearing anything.
            # What has begun ahead was told of in a message of its own.
            brief = rung
            while self._queue(name).due and not self._stopping:
                await self._turn(name)
                if not self._stopping:
                    await self._run(name, brief=brief or bool(self._queue(name).ahead))
                brief = False
        finally:
            del self._serving[name]

    async def _turn(self, name: str) -> None:
        """Wait until a run may be begun and a back-off is over."""

        def free() -> bool:
            queue = self._queue(name)
            rested = not queue.held and queue.next_try <= workflow.time()
            return self._stopping or (rested and self._host.may_start())

        while not free():
            queue = self._queue(name)
            left = queue.next_try - workflow.time() if not queue.held else 0.0
            with contextlib.suppress(TimeoutError):
                rest = timedelta(seconds=left) if left > 0 else None
                await workflow.wait_condition(free, timeout=rest, timeout_summary=f"back-off of queue {name}")

    async def _run(self, name: str, *, brief: bool) -> None:
        """Run the hook at the head; what it failed of stays there."""
        queue = self._queue(name)
        # A run whose end was not learned (its worker was lost) keeps its id: if it is journalled, it is not repeated.
        run_id = queue.run or queue.ahead or str(workflow.uuid4())
        ahead = "" if run_id == queue.ahead else queue.ahead
        self._put(queue.model_copy(update={"due": False, "run": run_id, "ahead": ahead}))
        self._running.add(name)
        try:
            result = await _run_events(self._request(name, run_id), brief=brief)
        except (FailureError, asyncio.CancelledError) as error:
            self._put(self._queue(name).model_copy(update={"due": True}))
            if is_cancelled_exception(error) and self._stopping:
                self._put(self._queue(name).model_copy(update={"run": ""}))
                raise
            state = moves.events_failed(
                self._host.read(), name, failure_of(error), workflow.time(), chance=workflow.random().random()
            )
            self._host.take_over(state)
            self.news = True
        else:
            self._ran(name, result)
        finally:
            self._running.discard(name)

    def _ran(self, name: str, result: EventsResult) -> None:
        queue = self._queue(name)
        self.news = self.news or queue.failure is not None
        due = queue.due or result.more
        self._put(queue.model_copy(update={"due": due, "run": "", "failure": None, "interruptions": None}))
        self._host.take_over(moves.events_ran(self._host.read(), name, result, workflow.time()))

    def _request(self, name: str, run_id: str) -> EventsRequest:
        state = self._host.read()
        loaded = state.progress.loaded
        if loaded is None:
            raise ValueError("hooks run without a loaded package")  # a bug: the task fails and is seen
        return EventsRequest(
            key=self._host.key,
            uid=state.progress.owner,
            artifact=loaded.artifact,
            queue=name,
            run_id=run_id,
            record=state.record,
            at=workflow.time(),
            placement=state.progress.placed,
        )

    def _queue(self, name: str) -> HookQueue:
        queues = self._host.read().hook_queues
        return next((queue for queue in queues if queue.name == name), HookQueue(name=name))

    def _put(self, queue: HookQueue) -> None:
        state = self._host.read()
        others = [one for one in state.hook_queues if one.name != queue.name]
        queues = tuple(sorted((*others, queue), key=lambda one: one.name))
        self._host.take_over(state.model_copy(update={"hook_queues": queues}))


async def _run_events(request: EventsRequest, *, brief: bool) -> EventsResult:
    """Run the hook at the head of a queue; ``brief``: in a local activity, as long as it can be."""
    summary = f"event hooks: {request.queue}"
    if brief:
        begun = await workflow.execute_local_activity_method(
            EventHookActivities.run_events, request, summary=summary, **HOOK_BEGIN
        )
        if not begun.pending:
            return begun
    return await workflow.execute_activity_method(EventHookActivities.run_events, request, summary=summary, **HOOK_RUN)
