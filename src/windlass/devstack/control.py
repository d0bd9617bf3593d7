"""Stops and starts single parts of a running stack, for tests of what happens meanwhile.

The file ``held.json`` names the parts that are to be stopped; SIGUSR1 makes the supervisor read it. A task that is
stopped and started again runs again. The next start of the stack begins with everything but clusters on demand.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from windlass.devstack.errors import StackError
from windlass.devstack.process import started_ticks
from windlass.devstack.state import PartPhase, StackState

TIMEOUT: Final = 60.0
"""Seconds until stopping or starting parts is given up; on an idle machine either takes less than five."""

_TICK: Final = 0.05


def held_file(data_dir: Path) -> Path:
    """Path of the file that names the parts which are to be stopped."""
    return data_dir / "held.json"


def held(data_dir: Path) -> frozenset[str]:
    """Return the names of the parts which are to be stopped."""
    try:
        return frozenset(json.loads(held_file(data_dir).read_text()))
    except FileNotFoundError:
        return frozenset()


def hold(data_dir: Path, parts: Iterable[str]) -> None:
    """Write down which parts are to be stopped; the supervisor reads it when it is told to."""
    file = held_file(data_dir)
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(sorted(parts)) + "\n")
    draft.replace(file)


def stop(data_dir: Path, parts: Iterable[str]) -> None:
    """Stop ``parts`` and return once they have ended.

    Raises:
        StackError: no stack runs, there is no such part, or they do not end in time.
    """
    names = frozenset(parts)
    _tell(data_dir, names, held(data_dir) | names)
    _await(data_dir, names, {PartPhase.STOPPED})


def start(data_dir: Path, parts: Iterable[str]) -> None:
    """Start ``parts`` again and return once they are ready; tasks among them are carried out again.

    Raises:
        StackError: no stack runs, there is no such part, or they are not ready in time.
    """
    names = frozenset(parts)
    _tell(data_dir, names, held(data_dir) - names)
    _await(data_dir, names, {PartPhase.READY, PartPhase.DONE})


def _tell(data_dir: Path, parts: frozenset[str], wanted: frozenset[str]) -> None:
    state = StackState.load(data_dir)
    if state is None or started_ticks(state.supervisor) != state.supervisor_ticks:
        message = f"no stack runs in {data_dir}"
        raise StackError(message, hint="start one: windlass up")
    if unknown := parts - state.parts.keys():
        message = f"the stack in {data_dir} has no part {', '.join(sorted(unknown))}"
        raise StackError(message, hint="windlass status lists them")
    hold(data_dir, wanted)
    os.kill(state.supervisor, signal.SIGUSR1)


def _await(data_dir: Path, parts: frozenset[str], phases: set[PartPhase]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        state = StackState.load(data_dir)
        missing = [name for name in sorted(parts) if state is None or state.parts[name].phase not in phases]
        if not missing:
            return
        if time.monotonic() > deadline:
            wanted = " or ".join(sorted(phases))
            message = f"not {wanted} within {TIMEOUT:.0f} s: {', '.join(missing)}"
            raise StackError(message, hint=f"see the logs in {data_dir / 'logs'}")
        # The state file is the interface to the supervisor; files cannot be waited for portably.
        time.sleep(_TICK)
