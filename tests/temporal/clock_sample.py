"""Workflows that ask the machine for what only Temporal may tell, in the ways that slip in."""

from __future__ import annotations

import random
import time
from datetime import datetime

from temporalio import workflow


@workflow.defn
class AsksForTime:
    """Reads the clock or chance of the machine, as told."""

    @workflow.run
    async def run(self, what: str) -> str:
        await workflow.sleep(0.01)  # a second activation, beside those of other runs
        match what:
            case "time":
                return str(time.time())
            case "now":
                return str(datetime.now())  # noqa: DTZ005 - which zone is not what is tested
            case "random":
                return str(random.random())  # noqa: S311 - no secret
            case "open":
                with open("/etc/hostname") as file:  # noqa: ASYNC230, PTH123 - blocking is the point
                    return file.read()
            case _:
                return str(workflow.now())
