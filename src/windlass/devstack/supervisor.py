"""The parent of all parts of a stack: one process, one thread.

Run as ``python -m windlass.devstack.supervisor PLAN``. It starts the parts as their needs become ready, writes
the state file, starts again what dies, and stops everything on SIGTERM, on SIGINT, and, unless detached, when
standard input ends, which is when the process that started it ends, however it ends. If it is killed itself,
the kernel kills the parts.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, TextIO

from windlass.devstack import clusters, control
from windlass.devstack import parts as catalogue
from windlass.devstack.causes import cause, death, memory_kills
from windlass.devstack.part import Part
from windlass.devstack.plan import Plan
from windlass.devstack.process import exit_text, spawn, started_ticks, tail
from windlass.devstack.state import PartPhase, PartState, Phase, StackState, acquire

ALREADY_RUNNING: Final = 3
"""Exit code when another supervisor holds the data directory."""

_STARTING_TICK: Final = 0.05  # seconds between two looks while something is coming up
_QUIET_TICK: Final = 5.0  # seconds between two health checks
_START_ATTEMPTS: Final = 3  # a part that never became ready and ended this often fails the start
_UNHEALTHY_AFTER: Final = 3  # failed health checks in a row
_FIRST_BACKOFF: Final = 0.2
_MAX_BACKOFF: Final = 10.0
_STABLE: Final = 30.0  # seconds after which an earlier death counts no more
_GRACE: Final = 3.0  # seconds between SIGTERM and SIGKILL; all parts keep their data safe either way
_TAIL: Final = 10  # log lines shown with a death
_LOOKED_AT: Final = 50  # log lines in which its cause is looked for


@dataclass(slots=True)
class _Child:
    part: Part
    state: PartState
    process: subprocess.Popen[bytes] | None = None
    started: float = 0
    start_at: float = 0
    backoff: float = _FIRST_BACKOFF
    attempts: int = 0
    deaths: int = 0
    failed_checks: int = 0
    stopping_since: float = 0


class Supervisor:
    """Carries out one `Plan`."""

    def __init__(self, plan: Plan, log: TextIO) -> None:
        self._plan = plan
        self._log = log
        self._began = time.monotonic()
        self._memory_kills = memory_kills()
        self._stop_reason = ""
        self._env = catalogue.environment(os.environ)
        self._children = {
            part.name: _Child(part, PartState(address=part.address, version=plan.versions[part.tool]))
            for part in catalogue.of(plan)
        }
        self._state = StackState(
            run_id=plan.run_id,
            supervisor=os.getpid(),
            supervisor_ticks=started_ticks(os.getpid()) or 0,
            started_at=time.time(),
            kubeconfig=str(plan.kubeconfig),
            apiserver_url=plan.apiserver_url,
            temporal_address=plan.temporal_address,
            ui_url=plan.ui_url,
            nats_url=plan.nats_url,
            clusters={name: str(plan.cluster_folder(name) / "kubeconfig") for name in plan.clusters},
            tools=plan.tools,
            parts={name: child.state for name, child in self._children.items()},
        )
        self._wakeup, wakeup_write = os.pipe()
        for descriptor in (self._wakeup, wakeup_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._held = frozenset(clusters.resting(plan, self._children))
        control.hold(plan.folder, self._held)
        self._held_changed = False
        signal.signal(signal.SIGUSR1, self._on_held_changed)

    def run(self) -> int:
        """Supervise until asked to stop; return the exit code."""
        self._say(f"run {self._plan.run_id} with {', '.join(self._children)}")
        self._publish()
        while not self._stop_reason and self._state.phase is not Phase.FAILED:
            if self._advance():
                self._publish()
            else:
                self._wait()
        failed = self._state.phase is Phase.FAILED
        if not failed:
            self._say(f"stopping: {self._stop_reason}")
            self._state.phase = Phase.STOPPING
            self._publish()
        self._stop_all()
        if not failed:
            self._state.phase = Phase.STOPPED
        self._publish()
        return 1 if failed else 0

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._stop_reason = signal.Signals(number).name

    def _on_held_changed(self, _number: int, _frame: FrameType | None) -> None:
        self._held_changed = True

    def _advance(self) -> bool:
        """Do what is due now; return whether anything changed."""
        if self._held_changed:
            self._held_changed = False
            self._held = control.held(self._plan.folder)
        changed = False
        for child in self._children.values():
            if child.part.name in self._held:
                changed |= self._hold(child)
                continue
            if child.state.phase is PartPhase.STOPPED:
                self._release(child)
                changed = True
            changed |= self._reap(child) or self._start_if_due(child) or self._check(child)
        if self._state.phase is Phase.STARTING and all(
            name in self._held or child.state.phase in {PartPhase.READY, PartPhase.DONE}
            for name, child in self._children.items()
        ):
            self._state.phase = Phase.READY
            self._state.ready_after = round(time.monotonic() - self._began, 2)
            self._say(f"ready after {self._state.ready_after:.1f} s")
            changed = True
        return changed

    def _hold(self, child: _Child) -> bool:
        """Have a part that is to be stopped end; return whether anything changed."""
        if child.state.phase is PartPhase.STOPPED:
            return False
        if child.process is None:
            child.state.phase = PartPhase.STOPPED
            return True
        if (code := child.process.poll()) is None:
            if not child.stopping_since:
                child.stopping_since = time.monotonic()
                child.process.terminate()
            elif time.monotonic() - child.stopping_since > _GRACE:
                child.process.kill()
            return False
        self._say(f"{child.part.name}: stopped on request, {exit_text(code)}")
        child.process = None
        child.stopping_since = 0
        child.state.pid = 0
        child.state.phase = PartPhase.STOPPED
        return True

    def _release(self, child: _Child) -> None:
        self._say(f"{child.part.name}: to be started on request")
        child.state.phase = PartPhase.WAITING
        child.start_at = 0
        child.backoff = _FIRST_BACKOFF

    def _start_if_due(self, child: _Child) -> bool:
        if child.process is not None or child.state.phase is PartPhase.DONE or time.monotonic() < child.start_at:
            return False
        done = {PartPhase.READY, PartPhase.UNHEALTHY, PartPhase.DONE}
        if any(self._children[need].state.phase not in done for need in child.part.needs):
            return False
        env = {**self._env, **child.part.env}
        child.process = spawn(child.part.argv, self._plan.log(child.part.name), env, self._plan.folder)
        child.started = time.monotonic()
        child.failed_checks = 0
        child.state.phase = PartPhase.STARTING
        child.state.pid = child.process.pid
        child.state.started_at = time.time()
        self._say(f"{child.part.name}: started as {child.process.pid}")
        return True

    def _reap(self, child: _Child) -> bool:
        if child.process is None or (code := child.process.poll()) is None:
            return False
        child.process = None
        child.state.pid = 0
        if child.part.once and code == 0:
            child.state.phase = PartPhase.DONE
            child.state.ready_after = round(time.monotonic() - child.started, 2)
            self._say(f"{child.part.name}: done after {child.state.ready_after:.1f} s")
            return True
        lines = tail(self._plan.log(child.part.name), _LOOKED_AT)
        child.deaths = child.deaths + 1 if time.monotonic() - child.started <= _STABLE else 1
        kills = memory_kills()
        found = cause(code, lines, out_of_memory=kills > self._memory_kills)
        self._memory_kills = kills
        child.state.last_error = death(child.part.name, exit_text(code), found, lines, shown=_TAIL, again=child.deaths)
        child.state.cause = found.text if found else ""
        self._say(child.state.last_error)
        if child.state.phase in {PartPhase.READY, PartPhase.UNHEALTHY}:
            child.attempts = 0
        child.attempts += 1
        if self._state.phase is Phase.STARTING and child.attempts >= _START_ATTEMPTS:
            child.state.phase = PartPhase.STOPPED
            self._state.phase = Phase.FAILED
            self._state.error = child.state.last_error
            return True
        if time.monotonic() - child.started > _STABLE:
            child.backoff = _FIRST_BACKOFF
        child.start_at = time.monotonic() + child.backoff
        child.backoff = min(child.backoff * 2, _MAX_BACKOFF)
        child.state.phase = PartPhase.RESTARTING
        child.state.restarts += 1
        return True

    def _check(self, child: _Child) -> bool:
        phase = child.state.phase
        if child.part.once or child.process is None:
            return False
        if phase is PartPhase.STARTING:
            if any(probe.failure() for probe in child.part.ready):
                return False
            child.state.phase = PartPhase.READY
            child.state.ready_after = round(time.monotonic() - child.started, 2)
            self._say(f"{child.part.name}: ready after {child.state.ready_after:.1f} s")
            return True
        if self._state.phase is Phase.STARTING or child.part.health is None:
            return False
        failure = child.part.health.failure()
        child.failed_checks = child.failed_checks + 1 if failure else 0
        if child.failed_checks >= _UNHEALTHY_AFTER and phase is PartPhase.READY:
            child.state.phase = PartPhase.UNHEALTHY
            child.state.last_error = failure
            self._say(f"{child.part.name}: unhealthy: {failure}")
            return True
        if not failure and phase is PartPhase.UNHEALTHY:
            child.state.phase = PartPhase.READY
            self._say(f"{child.part.name}: healthy again")
            return True
        return False

    def _wait(self) -> None:
        coming_up = any(
            child.state.phase in {PartPhase.WAITING, PartPhase.STARTING, PartPhase.RESTARTING} or child.stopping_since
            for child in self._children.values()
        )
        watched = [self._wakeup] if self._plan.detached else [self._wakeup, sys.stdin.fileno()]
        readable, _, _ = select.select(watched, [], [], _STARTING_TICK if coming_up else _QUIET_TICK)
        if self._wakeup in readable:
            os.read(self._wakeup, 4096)
        if sys.stdin.fileno() in readable and not os.read(sys.stdin.fileno(), 4096):
            self._stop_reason = "the process that started the stack ended"

    def _stop_all(self) -> None:
        """Stop the parts, those that others need last."""
        running = {name: child for name, child in self._children.items() if child.process is not None}
        while running:
            needed = {need for child in running.values() for need in child.part.needs}
            last = [child for name, child in running.items() if name not in needed]
            for child in last:
                self._process(child).terminate()
            deadline = time.monotonic() + _GRACE
            for child in last:
                process = self._process(child)
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                self._say(f"{child.part.name}: stopped, {exit_text(process.returncode)}")
                child.process = None
                child.state.phase = PartPhase.STOPPED
                child.state.pid = 0
                del running[child.part.name]
            self._publish()

    @staticmethod
    def _process(child: _Child) -> subprocess.Popen[bytes]:
        if child.process is None:
            message = f"{child.part.name} is not running"
            raise ProcessLookupError(message)
        return child.process

    def _publish(self) -> None:
        self._state.save(self._plan.folder)

    def _say(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        self._log.write(f"{stamp} {time.monotonic() - self._began:7.2f} {text}\n")
        self._log.flush()


def main(plan_file: Path) -> int:
    """Carry out the plan in ``plan_file``; return the exit code."""
    plan = Plan.load(plan_file)
    if acquire(plan.folder) is None:
        return ALREADY_RUNNING
    if plan.detached and os.fork() != 0:
        # The process that waits for us is to see an end; the lock stays with the child.
        os._exit(0)
    with plan.log("supervisor").open("a") as log:
        return Supervisor(plan, log).run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
