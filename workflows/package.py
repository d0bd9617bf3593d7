"""`PackageLifecycle`: the whole life of one package. Read `windlass.domain.lifecycle.steps` first."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow

from windlass.workflows import _actions as actions
from windlass.workflows import _beside as beside
from windlass.workflows import _drift as drift
from windlass.workflows import _exceptional as exceptional
from windlass.workflows import _requests as requests
from windlass.workflows import _transitions as moves
from windlass.workflows._hook_queues import HookQueues, Host
from windlass.workflows._options import QUICK, STATUS_DELAY
from windlass.workflows._performer import REMOTE, foregone, perform
from windlass.workflows._recorder import Recorder
from windlass.workflows._waiting import wait

with workflow.unsafe.imports_passed_through():
    from temporalio.exceptions import FailureError, is_cancelled_exception

    from windlass.activities.observe import ObserveActivities
    from windlass.contracts.failures import FailureDetails
    from windlass.contracts.lifecycle import (
        DESIRED_CHANGED,
        HOOK_EVENTS,
        PACKAGE_LIFECYCLE,
        QUARANTINED,
        RELEASE_DRIFTED,
        Action,
        ActionResult,
        AdoptAction,
        DesiredChanged,
        DumpView,
        HookEvents,
        LifecycleInput,
        LifecycleState,
        PauseAction,
        Quarantined,
        QueuesView,
        ReleaseDrifted,
        ResumeAction,
        RollbackAction,
        StatusView,
    )
    from windlass.contracts.status import decided, phase, queues_view, status_view, step_text
    from windlass.contracts.steps import Observation, ObserveRequest, Performed
    from windlass.domain.backoff import delay
    from windlass.domain.errors import Category
    from windlass.domain.ids import PackageKey
    from windlass.domain.lifecycle.changes import cancels, classify
    from windlass.domain.lifecycle.deadlines import Agenda, next_deadline
    from windlass.domain.lifecycle.effects import on_begin
    from windlass.domain.lifecycle.losses import NO_FAILURES
    from windlass.domain.lifecycle.policy import passes
    from windlass.domain.lifecycle.steps import Hold, Next, Step, serving
    from windlass.domain.lifecycle.transitions import begin
    from windlass.domain.packages.model import Artifact
    from windlass.temporal.failures import failure_of


@workflow.defn(name=PACKAGE_LIFECYCLE)
class PackageLifecycleWorkflow:
    """Observes, decides on one step, performs it, and again; rests when there is nothing to do."""

    @workflow.init
    def __init__(self, start: LifecycleInput) -> None:
        self._key: PackageKey = start.key
        self._limits = start.limits
        self._state = start.state or LifecycleState()
        self._observed = start.state is not None
        self._stale = True
        self._at_hand: Artifact | None = None
        self._placed = False
        self._show_after = STATUS_DELAY
        self._look_at = 0.0
        self._looks_failed = 0
        self._signals = 0
        self._running: Next | None = None
        self._interrupted = False
        self._remote = False
        self._build = workflow.info().get_current_build_id()
        self._recorder = Recorder(start.key)
        self._hooks = HookQueues(
            Host(key=start.key, read=lambda: self._state, take_over=self._replaced, may_start=self._hooks_may_start)
        )
        self._writing = asyncio.Lock()
        self._requests = requests.Requests(
            requests.Host(
                observed=lambda: self._observed,
                read=lambda: self._state,
                take_over=self._replaced,
                show=self._write,
                answer=self._answer,
            )
        )

    @workflow.run
    async def run(self, start: LifecycleInput) -> None:
        """Live until the object is gone; ``start`` was taken over in the constructor."""
        del start
        self._hooks.resume()
        try:
            await self._live()
        except asyncio.CancelledError:
            await self._hooks.stop()
            raise
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _live(self) -> None:
        while True:
            await self._look()
            now = workflow.time()
            self._state = drift.taken_in(self._state, now)
            step = self._decide()
            self._recorder.describe(self._state, step)
            if step.step is Step.FINISH:
                break
            if self._handover_due(idle=step.step is Step.WAIT):
                await self._hand_over()
            if step.step is Step.WAIT:
                await self._rest(step, now)
            else:
                await self._perform(step)

    # -- messages ----------------------------------------------------------------------------------------------------

    @workflow.signal(name=DESIRED_CHANGED)
    def desired_changed(self, message: DesiredChanged) -> None:
        """Something about the object or what it references is new: look again."""
        if message.pools is not None:
            self._set(pools=message.pools)
        self._stale = True
        self._look_at = 0.0
        self._signals += 1

    @workflow.update(name=HOOK_EVENTS)
    def hook_events(self, events: HookEvents) -> None:
        """Something waits in a mailbox for hooks that follow objects.

        A fact, and an update all the same: Temporal hands an update to the worker without writing it down first, which
        halves its way (docs/adr/0006). The worker tells again what was not taken.
        """
        self._signals += 1
        self._hooks.rung(events)

    @workflow.signal(name=RELEASE_DRIFTED)
    def release_drifted(self, message: ReleaseDrifted) -> None:
        """Somebody else has deleted or changed objects of the release: see to it when nothing else is done."""
        self._signals += 1
        if self._observed:
            now = workflow.time()
            self._state = drift.taken_in(drift.told(self._state, message, now), now)

    @workflow.signal(name=QUARANTINED)
    def quarantined(self, message: Quarantined) -> None:
        """Parts of the package's work beside this workflow are broken, or work again: say so in the status."""
        self._signals += 1
        if self._observed:
            self._state = exceptional.quarantined(self._state, message, workflow.time())

    @workflow.update
    async def retry(self, action: Action) -> ActionResult:
        """Try the failed step again now, reading the package's source anew if it could not be loaded.

        A version that was rejected is tried again, and so are hook queues that have failed.
        """
        return await self._requests.carry_out(action, lambda state: actions.retry_all(state, action, workflow.time()))

    @workflow.update
    async def pause(self, action: PauseAction) -> ActionResult:
        """Begin no further step until the action `resume`; what runs is finished, removal is not held up.

        With steps named, only these are not begun: breakpoints.
        """
        result = await self._requests.carry_out(action, lambda state: actions.pause(state, action, workflow.time()))
        if self._state.paused and self._state.progress.watching:
            await self._hooks.hold()  # when the action is answered, it holds for event hooks as well
        return result

    @workflow.update
    async def resume(self, action: ResumeAction) -> ActionResult:
        """Go on after `pause`, after `cancel`, or past a breakpoint."""
        return await self._requests.carry_out(action, lambda state: actions.resume(state, action, workflow.time()))

    @workflow.update
    async def cancel(self, action: Action) -> ActionResult:
        """Stop the running step and hold there until `retry` or `resume`, or until the object changes."""
        return await self._requests.carry_out(
            action, lambda state: actions.cancel(state, action, workflow.time(), running=self._running)
        )

    @workflow.update
    async def skip(self, action: Action) -> ActionResult:
        """Pass over the failed step; only hooks, and a release that a person accepts as it stands."""
        return await self._requests.carry_out(
            action, lambda state: actions.skip(state, action, workflow.time(), running=self._running)
        )

    @workflow.update
    async def adopt(self, action: AdoptAction) -> ActionResult:
        """Take over a release, or records of it, that somebody else wrote."""
        return await self._requests.carry_out(action, lambda state: actions.adopt(state, action, workflow.time()))

    @workflow.update
    async def rollback(self, action: RollbackAction) -> ActionResult:
        """Go back to a good release and stay there until the object changes or the action `retry`."""
        return await self._requests.carry_out(action, lambda state: actions.rollback(state, action, workflow.time()))

    @workflow.query
    def status(self) -> StatusView:
        """Phase, step, failure, conditions, actions."""
        return status_view(self._key, self._state, self._running or self._decide())

    @workflow.query
    def queues(self) -> QueuesView:
        """What is left to do."""
        return queues_view(self._key, self._state, self._running, self._hooks.running)

    @workflow.query
    def dump(self) -> DumpView:
        """The whole carried state."""
        return DumpView(
            key=self._key,
            state=self._state,
            running=step_text(self._running) if self._running else "",
            history_events=workflow.info().get_current_history_length(),
        )

    def _answer(self, answered: actions.Answered) -> ActionResult:
        self._state = answered.state
        self._interrupted = self._interrupted or (answered.interrupt and self._running is not None)
        if answered.look_again:
            self._stale, self._look_at = True, 0.0
        step = self._running or self._decide()
        return ActionResult(
            accepted=answered.accepted, phase=phase(self._state).value, step=step_text(step), message=answered.message
        )

    # -- the loop's four verbs -----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Observe the desired state if something says that it is new."""
        if not self._lookable():
            return
        self._stale = False
        pinned = self._state.progress.artifact
        request = ObserveRequest(
            key=self._key, restore=not self._observed, pinned=pinned.source if pinned is not None else None
        )
        try:
            found = await workflow.execute_local_activity_method(ObserveActivities.observe, request, **QUICK)
        except FailureError as error:  # a local activity's failure comes bare, without an ActivityError around it
            if is_cancelled_exception(error):
                raise
            self._stale = True
            self._look_failed(failure_of(error))
            return
        self._looks_failed = 0
        self._take_in(found)

    def _decide(self) -> Next:
        """Return the next step, or why there is none now."""
        if not self._observed:
            return Next(step=Step.WAIT, hold=Hold.BACKOFF)
        state = self._state
        step = decided(state)
        if step.step is Step.FINISH and self._stale:
            # Somebody told of something new, or the last look failed: the name may be in use again.
            return Next(step=Step.WAIT, hold=Hold.BACKOFF)
        if step.step not in {Step.WAIT, Step.FINISH} and moves.tries_at(state, step.label) > workflow.time():
            return Next(step=Step.WAIT, hold=Hold.BACKOFF, blocked=step.label)
        return step

    async def _perform(self, step: Next) -> None:
        """Perform one step and fold in what it brought; failures are written down, cancellations are not."""
        if step.step is Step.UNWATCH:
            await self._hooks.stop()
        started = self._state
        self._set(progress=begin(step, started.progress))
        leave = passes(started.control, started.progress, step)
        if leave is not None:
            self._state = moves.skipped(self._state, step, leave.why, workflow.time())
            return
        self._state = moves.changed(self._state, on_begin(step), workflow.time())
        known = foregone(step, started, self._at_hand, placed=self._placed)
        if known is not None:
            self._fold(step, started, known)
            return
        self._running = step
        # A run whose end was not learned (its worker was lost) keeps its id: if it is journalled, it is not repeated.
        self._set(hook_run=self._state.hook_run or str(workflow.uuid4()))
        self._remote = step.step in REMOTE
        task = asyncio.create_task(perform(self._key, step, self._state, self._went_remote))
        try:
            wrote = await beside.accompany(task, step, self._beside())
        finally:
            interrupted = self._interrupted
            self._running, self._interrupted = None, False
        try:
            performed = await task
        except (FailureError, asyncio.CancelledError) as error:
            self._unfinished(step, error, requested=interrupted, stopped=task.cancelling() > 0)
            return
        if step.step is Step.UPGRADE_RELEASE and not wrote:
            # Nobody has seen "being applied": the transition times of what was True before must not move.
            self._set(conditions=started.conditions)
        self._fold(step, started, performed)

    def _unfinished(self, step: Next, error: BaseException, *, requested: bool, stopped: bool) -> None:
        """Take note that a step ended without success.

        ``requested`` says that a person had it stopped, ``stopped`` that this workflow did for whatever reason.
        """
        details, cancelled = failure_of(error), is_cancelled_exception(error)
        if requested or (stopped and cancelled):
            # What an action has stopped has not failed, however it ended.
            workflow.logger.info("step cancelled", extra={"step": step.label})
            self._set(interruptions=None)
        elif cancelled or details.reason in NO_FAILURES:
            now, chance = workflow.time(), workflow.random().random()
            self._state = moves.interrupted(self._state, step.label, details, now, chance=chance)
            extra = {"step": step.label, "reason": details.reason.value, "error": details.message}
            workflow.logger.info("step interrupted", extra=extra)
        else:
            self._failed(step.label, step, details)

    async def _rest(self, step: Next, now: float) -> None:
        """Write down where things stand, then wait for news, or until there is something to do again.

        Whatever was due at ``now`` has been done.
        """
        self._at_hand = None  # it was of that moment
        await self._write(step)
        if self._observed:
            self._state = self._recorder.upsert(self._state)
        self._recorder.describe(self._state, step)
        agenda = Agenda(
            look=self._look_at if self._stale else None,
            write=self._recorder.retry_at if self._recorder.owes else None,
            tries=moves.tries_at(self._state, step.blocked),
            compare=self._state.drift.again_at,
        )
        deadline = next_deadline(agenda, step, compares=drift.may_compare(self._state), now=now)
        await wait(
            lambda: self._lookable() or self._decide() != step or self._news() or self._hooks_call(),
            [deadline.at] if deadline is not None else [],
            summary=f"rests until it can {deadline.acts.value}" if deadline is not None else "rests",
        )

    # -- beside a running step ----------------------------------------------------------------------------------

    def _beside(self) -> beside.Host:
        return beside.Host(
            remote=lambda: self._remote,
            show_after=lambda: self._show_after,
            interrupted=lambda: self._interrupted,
            lookable=self._lookable,
            look_at=lambda: self._look_at if self._stale else 0.0,
            look=self._look_beside,
            write_at=lambda: self._recorder.retry_at if self._recorder.owes else 0.0,
            news=self._news,
            write=self._write,
            leaving=self._handover_due,
        )

    def _went_remote(self) -> None:
        self._remote = True

    async def _look_beside(self, step: Next) -> str:
        before = self._state
        await self._look()
        event = classify(before.wanted, self._state.wanted)
        return event.value if cancels(event, step, before.progress) else ""

    # -- hook queues -----------------------------------------------------------------------------------------------

    def _replaced(self, state: LifecycleState) -> None:
        self._state = state

    def _hooks_may_start(self) -> bool:
        state = self._state
        return not state.paused and serving(state.wanted, state.progress) and not self._handover_due()

    def _hooks_call(self) -> bool:
        """Say whether hook queues have something for the main loop: a failure to show, or a run grown too long."""
        self._hooks.check()
        owed = self._hooks.news and not self._recorder.owes
        return owed or (self._hooks.busy and self._handover_due())

    # -- small steps --------------------------------------------------------------------------------------------

    def _news(self) -> bool:
        """Say whether there are Events to record now; while a write is owed, they wait for its next try."""
        return bool(self._state.notes) and self._state.desired.exists and not self._recorder.owes

    def _lookable(self) -> bool:
        return self._stale and workflow.time() >= self._look_at

    def _take_in(self, found: Observation) -> None:
        """Take over an observation: what is wanted now, and on the first one what outlived an earlier workflow."""
        self._at_hand, self._show_after = found.artifact, found.show_after or STATUS_DELAY
        self._placed = found.placed
        if not self._observed:
            self._observed = True
            self._state = moves.restored(self._state, found, workflow.time())
        now = workflow.time()
        self._state = exceptional.served(moves.observed(self._state, found, now), now)

    def _fold(self, step: Next, started: LifecycleState, performed: Performed) -> None:
        """Take over what a successful step brought."""
        state, look_again = moves.folded(self._state, step, started, performed, workflow.time())
        self._state = drift.folded(state, step, performed, workflow.time())
        self._stale = self._stale or look_again
        self._hooks.opened(performed.queues)

    def _look_failed(self, details: FailureDetails) -> None:
        """Look again later; a step's failure that holds the lifecycle already stays the one that people see."""
        self._looks_failed += 1
        if details.reason in NO_FAILURES:
            pass  # a worker that was drained has said nothing about the object
        elif self._state.failure is None or self._state.failure.step == moves.OBSERVE:
            self._failed(moves.OBSERVE, None, details)
        wait = delay(Category.TRANSIENT, self._looks_failed, chance=workflow.random().random())
        self._look_at = workflow.time() + wait

    def _failed(self, label: str, step: Next | None, details: FailureDetails) -> None:
        chance = workflow.random().random()
        self._state = moves.failed(self._state, label, step, details, workflow.time(), chance=chance)
        extra = {"step": label, "reason": details.reason.value, "attempt": moves.attempt(self._state)}
        workflow.logger.warning("step failed", extra=extra)

    async def _write(self, step: Next | None = None) -> bool:
        """Write status unless it is written; return whether it is now."""
        async with self._writing:  # two writes at a time could arrive in the wrong order
            step = step or self._running or self._decide()
            if step.step is Step.WAIT:
                self._state = moves.arrived(self._state, step, workflow.time())
            sent = self._state.notes
            self._hooks.news = False
            after = await self._recorder.write(self._state, step)
            # Actions may have come in during the write: only the writer's own fields are taken over.
            notes = self._state.notes if after.notes else tuple(note for note in self._state.notes if note not in sent)
            self._set(conditions=after.conditions, written=after.written, notes=notes, unrecorded=after.unrecorded)
            return bool(after.written)

    def _handover_due(self, *, idle: bool = False) -> bool:
        """Say whether this run has grown so long that the next one should take over."""
        info = workflow.info()
        long = info.get_current_history_length() >= self._limits.events or self._signals >= self._limits.signals
        build = info.get_current_build_id()
        return long or info.is_continue_as_new_suggested() or (idle and build != self._build)

    async def _hand_over(self) -> None:
        await self._hooks.hand_over()
        await self._write()  # the server may hold the next run back for a second: too late to show a failure that heals
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(
            LifecycleInput(
                key=self._key,
                limits=self._limits,
                state=self._state,
            ),
        )

    def _set(self, **changes: Any) -> None:
        self._state = self._state.model_copy(update=changes)
