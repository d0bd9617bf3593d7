"""Workflows that exchange payloads in every way there is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import activity, workflow

SHORT = timedelta(seconds=10)


@activity.defn(name="bound.echo")
async def echo(text: str) -> str:
    activity.heartbeat(text)
    return text


@activity.defn(name="bound.again")
async def again(text: str) -> str:
    """Fail the first attempt after a heartbeat; return what the second one finds of it."""
    if activity.info().attempt == 1:
        activity.heartbeat(text)
        raise RuntimeError(text)
    return str(activity.info().heartbeat_details[0])


@workflow.defn(name="BoundChild")
class Child:
    @workflow.run
    async def run(self, text: str) -> str:
        return f"child {text}"


@workflow.defn(name="Bound")
class Parent:
    """Passes a text through everything, and waits until a signal ends it."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ended = False

    @workflow.run
    async def run(self, text: str, runs: int) -> list[str]:
        seen = [
            text,
            str(workflow.memo_value("note", type_hint=str)),
            await workflow.execute_activity(echo, text, start_to_close_timeout=SHORT, summary=text),
            await workflow.execute_activity(again, text, start_to_close_timeout=SHORT),
            await workflow.execute_local_activity(echo, text, start_to_close_timeout=SHORT),
            await workflow.execute_child_workflow(Child.run, text, memo={"note": text}),
        ]
        if runs > 1:
            workflow.continue_as_new(args=[text, runs - 1])
        await workflow.wait_condition(lambda: self.ended)
        return seen + self.heard

    @workflow.signal
    def tell(self, text: str) -> None:
        self.heard.append(text)

    @workflow.signal
    def end(self) -> None:
        self.ended = True

    @workflow.update
    async def ask(self, text: str) -> str:
        return f"asked {text}"

    @workflow.query
    def what(self, text: str) -> str:
        return f"{text} {len(self.heard)}"


@activity.defn(name="bound.endless")
async def endless() -> str:
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.1)


@workflow.defn(name="BoundWaiting")
class Waiting:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(endless, start_to_close_timeout=SHORT, heartbeat_timeout=SHORT)


@workflow.defn(name="BoundTeller")
class Teller:
    @workflow.run
    async def run(self, other: str, text: str) -> None:
        handle = workflow.get_external_workflow_handle_for(Parent.run, other)
        await handle.signal(Parent.tell, text)
