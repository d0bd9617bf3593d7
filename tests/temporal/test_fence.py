"""A shard that is lost: its steps go to the next worker at once, and nothing of the SDK breaks."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from windlass.devstack.stack import Stack

pytestmark = pytest.mark.stack

PROGRAM = Path(__file__).parent / "fence_program.py"


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What the program printed: its result, and everything that it and the SDK's core have said."""

    result: dict[str, Any]
    said: str


@pytest.fixture(scope="module")
async def lost(stack: Stack) -> Lost:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        stack.temporal_address,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent.parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = (text.decode() for text in await process.communicate())
    lines = [line for line in out.splitlines() if line.startswith("{")]
    assert (process.returncode, len(lines)) == (0, 1), out + errors
    return Lost(result=json.loads(lines[0]), said=out + errors)


async def test_a_lost_shard_gives_its_steps_back_at_once(lost: Lost) -> None:
    assert lost.result == {"reasons": [["LeaseLost"]] * 10, "timed out": 0}
    assert "Network error while completing activity" not in lost.said


@pytest.mark.parametrize("complaint", ["panicked", "untracked local activity", "UserWarning", "BUG"])
async def test_the_sdk_has_nothing_to_complain_of_when_a_shard_is_lost(lost: Lost, complaint: str) -> None:
    assert complaint not in lost.said
