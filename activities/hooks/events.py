"""Hooks that follow objects: enabling and disabling their bindings, and runs for what has happened."""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakValueDictionary

import structlog
from temporalio import activity

from windlass.activities.brief import Brief, Briefs
from windlass.activities.content import Contents, State
from windlass.activities.heartbeat import heartbeating
from windlass.activities.hooks.runs import Call, HookRuns, Outcome
from windlass.activities.placing import required
from windlass.contracts.record import JournalEntry, PackageRecord, RecordRef, WatchedRecord
from windlass.contracts.steps import (
    EventsRequest,
    EventsResult,
    HoldRequest,
    UnwatchRequest,
    WatchRequest,
    WatchResult,
)
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.domain.ids import SYSTEM_NAMESPACE, PackageKey, record_name
from windlass.domain.packages.model import Binding
from windlass.ports.suspects import STEP, Suspects
from windlass.ports.watches import EventRun, HookWatches, PackageWatch

_log = structlog.stdlib.get_logger(__name__)


class EventHookActivities:
    """How far hooks have been told stands in the state Secret before a run returns: what is not there is told again."""

    def __init__(self, *, runs: HookRuns, watches: HookWatches, contents: Contents, suspects: Suspects) -> None:
        self._suspects = suspects
        self._runs = runs
        self._watches = watches
        self._contents = contents
        self._locks: WeakValueDictionary[tuple[PackageKey, str], asyncio.Lock] = WeakValueDictionary()
        self._briefs = Briefs[EventsResult]()

    @activity.defn(name="hook.watch")
    async def watch(self, request: WatchRequest) -> WatchResult:
        """Enable the kubernetes bindings of a content's hooks; those enabled before go on where they stood."""
        async with heartbeating():
            return await self._watch(request)

    async def _watch(self, request: WatchRequest) -> WatchResult:
        state = await self._contents.applied(request.key, request.uid, request.record)
        watched = state.record.watched
        if watched is None or watched.digest != request.artifact.digest:
            hooks = tuple(hook for hook in request.hooks if hook.kubernetes)
            watched = WatchedRecord(digest=request.artifact.digest, hooks=hooks)
            state = await self._contents.update(
                request.key,
                request.uid,
                state.ref,
                lambda record: record.model_copy(update={"watched": watched}),
            )
        watch = await self._watches.open(request.key, required(request.placement, request.key), watched)
        return WatchResult(queues=watch.waiting(), unsynchronized=watch.unsynchronized(), record=state.ref)

    @activity.defn(name="hook.unwatch")
    async def unwatch(self, request: UnwatchRequest) -> WatchResult:
        """Disable them; what they were told is forgotten: enabled again, they are told everything anew."""
        await self._briefs.end(lambda key: isinstance(key, tuple) and request.key in key)
        await self._watches.close(request.key)
        state = await self._contents.state(request.key, request.uid, request.record)
        if state.record.watched is not None:
            state = await self._contents.update(
                request.key, request.uid, state.ref, lambda record: record.model_copy(update={"watched": None})
            )
        return WatchResult(record=state.ref)

    @activity.defn(name="hook.run_events")
    async def run_events(self, request: EventsRequest) -> EventsResult:
        """Run the hook whose news are at the head of the queue, with all that it can be told at once.

        As a local activity it returns ``pending`` when the run does not end at once, or has something to say that must
        not be lost with its workflow task: the remote activity of the same run id stays beside it until it ends.

        A run that leaves nothing to do allows the next one of its queue to begin as soon as there is news, ahead of the
        activity that comes for it.
        """
        key, work = _name(request), partial(self._run_events, request)
        if activity.info().is_local:
            suspected = self._suspects.suspected(request.key)
            begun = None if suspected else await self._briefs.begin(key, work)
            result = begun or EventsResult(pending=True)
        else:
            result = await self._briefs.attend(key, work)
            await self._suspects.worked(request.key, STEP)
        if not result.pending and self._watches.has_news(request.key, request.queue):
            # What came after a run that had begun ahead was told to the workflow together with that run, perhaps.
            result = result.model_copy(update={"more": True})
        if not (result.pending or result.more or result.unsynchronized):
            begin = partial(self._begin_ahead, request, result.record)
            self._watches.allow(request.key, request.queue, begin, since=request.at)
        return result

    @activity.defn(name="hook.hold")
    async def hold(self, request: HoldRequest) -> None:
        """Begin no run ahead until one that the workflow decides on later has ended."""
        self._watches.hold(request.key, since=request.at)

    def _begin_ahead(self, request: EventsRequest, record: RecordRef | None, run_id: str) -> asyncio.Task[EventsResult]:
        ahead = request.model_copy(update={"run_id": run_id, "record": record})
        return self._briefs.ahead(_name(ahead), partial(self._run_events, ahead))

    async def _run_events(self, request: EventsRequest, brief: Brief) -> EventsResult:
        """Make one run; runs of one queue never meet, also when Temporal has given up one that is still under way."""
        lock = self._locks.setdefault((request.key, request.queue), asyncio.Lock())
        async with lock:
            with self._suspects.opening(request.key, STEP):
                return await self._next_run(request, brief)

    async def _next_run(self, request: EventsRequest, brief: Brief) -> EventsResult:
        brief.beat.details = request.queue
        state = await self._contents.applied(request.key, request.uid, request.record)
        watched = _watched(request, state)
        watch = await self._watches.open(request.key, required(request.placement, request.key), watched)
        watch.announce()  # opened by this very run, other queues have something to tell as well
        last = watched.runs.get(request.queue)
        if last is not None and last.run_id == request.run_id:
            return _now(EventsResult.model_validate(last.result), watch, request.queue, state)
        if watch.unsynchronized():
            await brief.attended()  # the main queue waits to learn of the end of this run
        run = watch.take(request.queue)
        if run is None:
            return await _done(EventsResult(), watch, request.queue, state, brief)
        brief.beat.details = f"{request.queue}: {run.hook.path}"
        try:
            result, state = await self._run(request, run, watch, state, brief)
        except WindlassError as error:
            if not run.allow_failure or error.reason is not Reason.EVENT_HOOK_FAILED:
                raise
            _log.warning("failure allowed", package=request.key.package_id, hook=run.hook.path, error=str(error))
            result = EventsResult(hook=run.hook.path, items=run.items, reports=(f"failed: {error.message}",))
            state = await self._contents.update(
                request.key, request.uid, state.ref, lambda record: _journalled(request, record, result, watch)
            )
        return await _done(result, watch, request.queue, state, brief)

    async def _run(
        self, request: EventsRequest, run: EventRun, watch: PackageWatch, state: State, brief: Brief
    ) -> tuple[EventsResult, State]:
        content = await self._contents.ensure(request.artifact)
        call = Call(
            key=request.key,
            placement=required(request.placement, request.key),
            uid=request.uid,
            hook=run.hook,
            binding=Binding.KUBERNETES,
            context=run.context,
        )

        def result(outcome: Outcome) -> EventsResult:
            return EventsResult(hook=run.hook.path, items=run.items, changed=outcome.changed, duration=outcome.duration)

        def journal(record: PackageRecord, outcome: Outcome) -> PackageRecord:
            return _journalled(request, record, result(outcome), watch)

        outcome, saved = await self._runs.run(call, content, state, journal, before_change=brief.attended)
        return result(outcome), saved


def _name(request: EventsRequest) -> tuple[PackageKey, str, str]:
    return request.key, request.queue, request.run_id


def _watched(request: EventsRequest, state: State) -> WatchedRecord:
    watched = state.record.watched
    if watched is None or watched.digest != request.artifact.digest:
        raise TransientError(
            Reason.STATE_LOST,
            f"the state Secret {record_name(request.key)} in {SYSTEM_NAMESPACE} says nothing of watches",
            hint="nothing to do: settings are applied and hooks are run anew",
        )
    return watched


def _journalled(
    request: EventsRequest, record: PackageRecord, result: EventsResult, watch: PackageWatch
) -> PackageRecord:
    """Write down what the hooks have been told; without the record of this life there is nothing to write it into."""
    watched = record.watched
    if watched is None:
        return record
    entry = JournalEntry(run_id=request.run_id, result=result.model_dump(mode="json", exclude={"record"}))
    told = {"bindings": watch.after(request.queue), "runs": {**watched.runs, request.queue: entry}}
    return record.model_copy(update={"watched": watched.model_copy(update=told)})


async def _done(result: EventsResult, watch: PackageWatch, queue: str, state: State, brief: Brief) -> EventsResult:
    # Reports first: the queue is empty, and the next news are signalled, only when they have been taken as well.
    reports = (*result.reports, *watch.reports(queue))
    if reports:
        await brief.attended()
    more = watch.done(queue)
    return _now(result.model_copy(update={"reports": reports}), watch, queue, state).model_copy(update={"more": more})


def _now(result: EventsResult, watch: PackageWatch, queue: str, state: State) -> EventsResult:
    """Return ``result`` with how things stand now."""
    more = watch.waits(queue)
    return result.model_copy(update={"more": more, "unsynchronized": watch.unsynchronized(), "record": state.ref})
