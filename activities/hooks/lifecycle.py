"""Runs one lifecycle hook once, and makes what it asked for true."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from temporalio import activity

from windlass.activities.content import Contents
from windlass.activities.heartbeat import heartbeating
from windlass.activities.hooks.runs import Call, HookRuns, Outcome
from windlass.activities.placing import required
from windlass.contracts.record import PackageRecord
from windlass.contracts.steps import HookRequest, HookResult
from windlass.domain.hooks.configuration import binding_context
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Binding
from windlass.ports.watches import HookWatches

TEARDOWN = frozenset({Binding.BEFORE_DELETE_HELM, Binding.AFTER_DELETE_HELM})
"""Hooks of a removal run with what is left, also when somebody has deleted the state Secret."""


class HookActivities:
    """A run is journalled in the state Secret before the activity returns: a repeated attempt runs nothing."""

    def __init__(self, *, runs: HookRuns, watches: HookWatches, contents: Contents) -> None:
        self._runs = runs
        self._watches = watches
        self._contents = contents
        self._locks: WeakValueDictionary[PackageKey, asyncio.Lock] = WeakValueDictionary()

    @activity.defn(name="hook.run")
    async def run(self, request: HookRequest) -> HookResult:
        """Run the hook, then apply its object operations, then keep its values patch.

        Lifecycle hooks of one package never meet: an attempt that Temporal has given up, because it heard nothing for
        a while, may still be running here, and the next one waits for its end.
        """
        lock = self._locks.setdefault(request.key, asyncio.Lock())
        async with heartbeating() as beat, lock:
            beat.details = f"{request.binding.value}: {request.hook.path}"
            content = await self._contents.ensure(request.artifact)
            read = self._contents.state if request.binding in TEARDOWN else self._contents.applied
            state = await read(request.key, request.uid, request.record)
            if (journalled := state.record.hook_result(request.run_id)) is not None:
                return HookResult.model_validate(journalled).model_copy(update={"record": state.ref})
            placement = required(request.placement, request.key)
            snapshots = await self._watches.snapshots(request.key, placement, request.hook)
            call = Call(
                key=request.key,
                placement=placement,
                uid=request.uid,
                hook=request.hook,
                binding=request.binding,
                context=binding_context(request.binding, snapshots),
            )

            def journal(record: PackageRecord, outcome: Outcome) -> PackageRecord:
                return record.with_hook_run(
                    request.run_id, _result(outcome).model_dump(mode="json", exclude={"record"})
                )

            outcome, saved = await self._runs.run(call, content, state, journal)
        return _result(outcome).model_copy(update={"record": saved.ref})


def _result(outcome: Outcome) -> HookResult:
    return HookResult(values=outcome.values, duration=outcome.duration)
