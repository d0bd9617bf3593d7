"""What a running stack says about itself: one JSON file, one lock."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Phase(StrEnum):
    """State of the whole stack."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


class PartPhase(StrEnum):
    """State of one part."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"
    RESTARTING = "restarting"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(slots=True)
class PartState:
    """One part as it is now.

    Attributes:
        phase: see `PartPhase`.
        pid: its process; 0 when there is none.
        address: where it serves; empty when it does not.
        version: of its program.
        started_at: seconds since the epoch of its latest start; 0 before the first.
        ready_after: seconds from its latest start until it was ready; 0 before.
        restarts: how often it died and was started again.
        last_error: how and why it died the last time, with what to do and the end of its log.
        cause: why it died the last time, in a few words; empty if that is not known.
    """

    phase: PartPhase = PartPhase.WAITING
    pid: int = 0
    address: str = ""
    version: str = ""
    started_at: float = 0
    ready_after: float = 0
    restarts: int = 0
    last_error: str = ""
    cause: str = ""


@dataclass(slots=True)
class StackState:
    """The whole stack as it is now.

    Attributes:
        run_id: that of the `Plan` it carries out.
        supervisor: pid of the parent of all parts.
        supervisor_ticks: when that process was started, see `windlass.devstack.process.started_ticks`.
        phase: see `Phase`.
        error: why the stack failed.
        started_at: seconds since the epoch.
        ready_after: seconds from the start until everything was ready; 0 before.
        kubeconfig: path of the kubeconfig to use.
        apiserver_url: of the embedded API server; empty when the cluster is somebody else's.
        temporal_address: host:port.
        nats_url: of the NATS server; empty when the stack has none.
        ui_url: of the embedded Temporal's UI; empty when Temporal is somebody else's.
        clusters: kubeconfig of each cluster beside the management cluster, by its name.
        tools: path of each program in use, by tool name.
        parts: by name, in the order in which they come up.
    """

    run_id: str
    supervisor: int
    supervisor_ticks: int
    phase: Phase = Phase.STARTING
    error: str = ""
    started_at: float = 0
    ready_after: float = 0
    kubeconfig: str = ""
    apiserver_url: str = ""
    temporal_address: str = ""
    ui_url: str = ""
    nats_url: str = ""
    clusters: dict[str, str] = field(default_factory=dict[str, str])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    parts: dict[str, PartState] = field(default_factory=dict[str, PartState])

    def save(self, data_dir: Path) -> None:
        """Replace the state file of ``data_dir``."""
        file = state_file(data_dir)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        temporary.replace(file)

    @classmethod
    def load(cls, data_dir: Path) -> StackState | None:
        """Return the latest state of ``data_dir``, or None when no stack was ever started there."""
        try:
            raw: dict[str, Any] = json.loads(state_file(data_dir).read_text())
        except FileNotFoundError:
            return None
        parts: dict[str, dict[str, Any]] = raw.pop("parts")
        phase = Phase(raw.pop("phase"))
        return cls(**raw, phase=phase, parts={name: _part(part) for name, part in parts.items()})


def _part(raw: dict[str, Any]) -> PartState:
    phase = PartPhase(raw.pop("phase"))
    return PartState(**raw, phase=phase)


def state_file(data_dir: Path) -> Path:
    """Path of the state file of ``data_dir``."""
    return data_dir / "state.json"


def acquire(data_dir: Path) -> int | None:
    """Take the lock of ``data_dir`` for the life of this process; None when a supervisor has it.

    Returns:
        The open descriptor that holds the lock.
    """
    descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_running(data_dir: Path) -> bool:
    """Whether a supervisor holds the lock of ``data_dir``."""
    if not (data_dir / "lock").exists():
        return False
    descriptor = acquire(data_dir)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
