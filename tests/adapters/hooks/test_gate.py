"""Shells that wait: they end with their pipe, are replaced when they die, and become exactly what is asked."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from support.waiting import eventually
from windlass.adapters.hooks.gate import WAITING, Command, Gate, Gates


def command(script: str, cwd: Path, **env: str) -> Command:
    return Command(argv=("/bin/sh", "-c", script), cwd=cwd, home=cwd, env={"PATH": os.defpath, **env})


async def become(gate: Gate, what: Command) -> str:
    """Open the gate, wait for the end, return what was printed to stdout."""
    gate.open(what)
    async with asyncio.timeout(30):
        await gate.process.wait()
    return gate.stdout.readall().decode()


async def test_arguments_folder_and_environment_arrive_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s a "folder" $HOME'
    folder.mkdir()
    odd = "a 'b' \"c\" $d `e` \\ é\nnext line"
    gates = Gates()
    with gates.taken() as gate:
        printed = await become(gate, command('printf "%s|%s|%s" "$ODD" "$PWD" "$(ulimit -c)"; cat', folder, ODD=odd))
    assert printed == f"{odd}|{folder}|0"
    await gates.close()


async def test_a_shell_waits_for_the_next_hook_and_ends_with_the_runner(tmp_path: Path) -> None:
    gates = Gates()
    with gates.taken() as first:
        await become(first, command("true", tmp_path))
    waiting = [gate.process for gate in gates._waiting]
    assert len(waiting) == WAITING
    with gates.taken() as second:
        assert second.process in waiting
        await become(second, command("true", tmp_path))
    await gates.close()
    assert all(process.returncode is not None for process in waiting)


async def test_a_shell_that_was_killed_while_it_waited_is_not_used(tmp_path: Path) -> None:
    gates = Gates()
    with gates.taken() as gate:
        await become(gate, command("true", tmp_path))
    killed = [one.process for one in gates._waiting]
    for process in killed:
        os.kill(process.pid, signal.SIGKILL)
    await eventually(lambda: all(process.returncode is not None for process in killed), 10)
    with gates.taken() as gate:
        assert gate.process not in killed
        assert await become(gate, command("echo here", tmp_path)) == "here\n"
    await gates.close()


async def test_a_gate_that_is_closed_runs_nothing() -> None:
    gates = Gates()
    with gates.taken() as gate:
        pass
    async with asyncio.timeout(30):
        await gate.process.wait()
    assert gate.process.returncode == 0
    await gates.close()


async def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    gates = Gates()
    with gates.taken() as gate, pytest.raises(FileNotFoundError):
        gate.open(command("true", tmp_path / "gone"))
    await gate.process.wait()
    await gates.close()
