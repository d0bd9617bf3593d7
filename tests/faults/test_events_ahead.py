"""Temporal does not answer while objects change: hooks that may begin ahead of their lifecycle do, and none twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.event_hooks import Journal, labelled, named, put, write
from support.installation import Installation
from support.running import running
from support.waiting import eventually
from windlass.devstack.stack import Stack

WITHIN = 60.0


@contextmanager
def silent(stack: Stack) -> Generator[None]:
    """Temporal hears and says nothing meanwhile."""
    pid = stack.pids["temporal"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def following(installation: Installation, journal: Journal, name: str, *, body: str = "") -> None:
    """Install a package that follows the ConfigMaps of this name, and let it follow one."""
    binding = labelled(name, jqFilter=".data | {x}", executeHookOnSynchronization=False)
    write(installation, name, hook=journal.hook(binding, body=body))
    await installation.application(name, name, "1.0.0")
    await installation.ready(name)
    await put(installation, f"{name}-first", name, x="1")
    await journal.told("Added", f"{name}-first", within=WITHIN)
    await rests(installation, name)


async def rests(installation: Installation, name: str) -> None:
    """Wait until nothing waits in any queue of the package."""

    async def at_rest() -> bool:
        return not any((await installation.lifecycles.queues(installation.key(name))).queues.values())

    await eventually(at_rest, WITHIN, what="all queues are empty")


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
async def test_a_change_is_told_while_temporal_is_silent_and_not_once_more(
    own_stack: Stack, tmp_path: Path, *, slow: bool
) -> None:
    journal, begun = Journal(tmp_path), tmp_path / "begun"
    name = "slow" if slow else "quick"
    wait = f"trap 'echo ended >> {begun}; exit 1' TERM; [ -e {tmp_path}/hurry ] || sleep 60"
    body = f"echo begun >> {begun}; {wait if slow else ''}"
    async with running(own_stack, tmp_path) as installation:
        (tmp_path / "hurry").touch()
        await following(installation, journal, name, body=body)
        (tmp_path / "hurry").unlink()
        begun.unlink()
        with silent(own_stack):
            await put(installation, f"{name}-second", name, x="1")
            await eventually(begun.exists, WITHIN, what="it has begun ahead")
            if slow:
                # Nobody comes for it, and by now another worker might have its shard.
                await eventually(lambda: "ended" in begun.read_text(), WITHIN, what="it is ended")
                (tmp_path / "hurry").touch()
            else:
                await journal.told("Added", f"{name}-second", within=WITHIN)
        await journal.told("Added", f"{name}-second", within=WITHIN)
        await rests(installation, name)
        # The next one comes the same way.
        await put(installation, f"{name}-third", name, x="1")
        await journal.told("Added", f"{name}-third", within=WITHIN)
        await rests(installation, name)
        assert [named(item) for item in journal.items] == [f"{name}-first", f"{name}-second", f"{name}-third"]
