"""Parts of a stack that are killed, and back."""

from __future__ import annotations

import os
import signal

from faults.points import WAIT_SECONDS

from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.devstack.state import PartPhase


async def killed(stack: Stack, part: str) -> None:
    """Kill a part with -9 and wait until the supervisor has it running again."""
    pid = stack.pids[part]
    os.kill(pid, signal.SIGKILL)
    await back(stack, part, pid)


async def back(stack: Stack, part: str, before: int) -> None:
    """Wait until a part runs again after its process ``before`` was killed."""

    def ready() -> bool:
        state = stack.state.parts[part]
        return state.pid not in {0, before} and state.phase is PartPhase.READY

    await eventually(ready, WAIT_SECONDS, what=f"{part} is back")
