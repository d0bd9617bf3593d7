"""What a lifecycle does beside a running step: take in changes, show the step when it takes long, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio import workflow

from windlass.workflows._options import HANDOVER_GRACE
from windlass.workflows._waiting import stopped, wait

with workflow.unsafe.imports_passed_through():
    from windlass.contracts.steps import Performed
    from windlass.domain.lifecycle.steps import Next


@dataclass(frozen=True, kw_only=True)
class Host:
    """What staying beside a step needs of the lifecycle. Times are seconds of workflow time.

    Attributes:
        remote: says whether the step has begun an activity that may take long.
        show_after: returns after how many seconds a remote step is shown.
        interrupted: says whether a person wants the step stopped.
        lookable: says whether the desired state is to be observed now.
        look_at: returns when it is to be observed, 0 if nothing says that it is new.
        look: observes it; returns what happened if that cancels the step, else nothing.
        write_at: returns when an owed write of status is due, 0 if none is owed.
        news: says whether there are Events to record.
        write: writes status.
        leaving: says whether this run has grown so long that the next one should take over.
    """

    remote: Callable[[], bool]
    show_after: Callable[[], float]
    interrupted: Callable[[], bool]
    lookable: Callable[[], bool]
    look_at: Callable[[], float]
    look: Callable[[Next], Awaitable[str]]
    write_at: Callable[[], float]
    news: Callable[[], bool]
    write: Callable[[Next], Awaitable[bool]]
    leaving: Callable[[], bool]


async def accompany(task: asyncio.Task[Performed], step: Next, host: Host) -> bool:
    """Stay beside a running step until it has ended; return whether status was written meanwhile."""
    try:
        return await _stay(task, step, host)
    finally:
        # Whatever ends the company, the cancellation of the whole workflow among it: no step is left alone.
        await stopped(task)


async def _stay(task: asyncio.Task[Performed], step: Next, host: Host) -> bool:
    show_at, give_up_at = 0.0, 0.0
    wrote = remote = False

    def needed() -> bool:
        # Actions and failures that come in once the step is on show are shown at once; before, with the step itself.
        return (
            task.done()
            or host.remote() != remote
            or host.interrupted()
            or host.lookable()
            or (not give_up_at and host.leaving())
            or (wrote and host.news())
        )

    while not task.done():
        if host.remote() and not remote:
            remote, show_at = True, workflow.time() + host.show_after()
        until = [at for at in (show_at, give_up_at, host.look_at(), host.write_at()) if at]
        await wait(needed, until, summary=f"beside {step.label}")
        if task.done():
            break
        if host.interrupted():
            workflow.logger.info("cancelling step", extra={"step": step.label, "event": "Requested"})
            await stopped(task)
            break
        if host.lookable() and (event := await host.look(step)) and not task.done():
            workflow.logger.info("cancelling step", extra={"step": step.label, "event": event})
            await stopped(task)
        due = bool(show_at) and workflow.time() >= show_at
        owed = bool(host.write_at()) and workflow.time() >= host.write_at()
        if due or owed or (wrote and host.news()):
            show_at, wrote = 0.0, True
            await host.write(step)
        if host.leaving() and not give_up_at:
            give_up_at = workflow.time() + HANDOVER_GRACE
        if give_up_at and workflow.time() >= give_up_at:
            await stopped(task)
    return wrote
