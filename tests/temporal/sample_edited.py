"""`temporal.sample` after a careless edit; a module of its own, because the sandbox loads workflows by module."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from temporal.sample import Request


@workflow.defn(name="Sample")
class CarelesslyEdited:
    @workflow.run
    async def run(self, _request: Request) -> None:
        await workflow.sleep(1)
