"""The keeper of one run: forked by the runner, it forks the hook, watches it, ends it, and says how it ended.

It adopts whatever the hook starts (PR_SET_CHILD_SUBREAPER): a process can leave its group, its session and its
environment behind, but not its keeper. The run is over when the keeper has no child left.

Signals are blocked and waited for, so that none is missed between a look and a wait.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import sys
import time
from typing import Final, NamedTuple

from windlass.adapters.runner import folders, kernel, watch
from windlass.adapters.runner.cgroups import Cgroup
from windlass.adapters.runner.confine import Borders, Program, become
from windlass.adapters.runner.protocol import Ended, Output, Request, encode_ended, send
from windlass.adapters.runner.protocol import Limits as RunLimits

CANCEL: Final = signal.SIGUSR1
"""Asks a keeper to end its run, with grace."""

QUIT: Final = signal.SIGTERM
"""Asks a keeper to end its run at once; it is sent when the runner dies."""

SIGNALS: Final = frozenset({signal.SIGCHLD, CANCEL, QUIT, signal.SIGINT, signal.SIGHUP})

_FIRST_LOOK: Final = 0.02  # seconds after the start; nearly all hooks of events have ended by then
_MEMORY_PAUSE: Final = 0.03  # seconds between looks at memory: 60 to 150 MB for a process that does nothing but take it
_DISK_PAUSE: Final = 0.1  # the same for the folder
_SHARE: Final = 20  # a look that takes long is repeated after this many times its duration
_LONGEST_PAUSE: Final = 0.5  # seconds between looks, however long they take
_END_PAUSE: Final = 0.005  # seconds between looks at processes that were signalled, doubled up to 0.1
_TOO_LARGE: Final = (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)  # of the hook itself; of the last command of a shell
_STUCK: Final = 5.0  # seconds after SIGKILL before it is said that the kernel holds a process


class Job(NamedTuple):
    """What a keeper is given; descriptors are those that came with the request."""

    request: Request
    folder: str
    user: int
    limits: RunLimits
    processes: int
    borders: Borders
    cgroup: Cgroup | None
    contents: int
    outputs: int
    stdout: int
    stderr: int


def keep(job: Job, runner: int, channel: socket.socket) -> None:
    """Be the keeper of a run, from start to end; ``runner`` is the process that forked this one."""
    number = job.request.number
    kernel.signal_at_parents_death(QUIT)
    if os.getppid() != runner:
        return
    kernel.adopt_orphans()
    try:
        try:
            ended = _Keeper(job).run()
        finally:
            folders.remove(job.folder)
            if job.cgroup is not None:
                job.cgroup.remove()
    except OSError as error:
        message = {"op": "failed", "number": number, "problem": f"{error.strerror or error}"[:500]}
    else:
        message = encode_ended(number, ended)
    with contextlib.suppress(OSError):  # the worker is gone
        send(channel, message)


class _Keeper:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._leader = 0
        self._status: int | None = None
        self._childless = False
        self._began = self._ended = time.monotonic()
        self._over = ""
        self._quit = False
        self._cancelled = False

    def run(self) -> Ended:
        job = self._job
        request = job.request
        home = folders.fill(job.folder, job.contents, request.inputs, [name for _, name in request.outputs], job.user)
        place = os.open(job.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._start(home)
        timed_out = self._watched()
        left = self._end(request.timeout_grace if timed_out else request.cancel_grace)
        status = self._status if self._status is not None else -signal.SIGKILL
        if not self._over and status in _TOO_LARGE:
            self._over = "disk"
        if not self._over and job.cgroup is not None and job.cgroup.out_of_memory():
            self._over = "memory"
        return Ended(
            status=status,
            duration=self._ended - self._began,
            timed_out=timed_out,
            left_behind=left and not timed_out and not self._cancelled,
            over=self._over,
            outputs=tuple(self._outputs(place)),
        )

    def _outputs(self, place: int) -> list[Output]:
        names = [name for _, name in self._job.request.outputs]
        return [folders.bring(place, name, self._job.user, self._job.outputs) for name in names]

    # -- start -------------------------------------------------------------------------------------------------------

    def _start(self, home: str) -> None:
        job, request = self._job, self._job.request
        paths = {one.variable: f"{job.folder}/{one.name}" for one in request.inputs}
        paths |= {variable: f"{job.folder}/{name}" for variable, name in request.outputs}
        if job.user:  # so that it can open /dev/stdout and /dev/stderr
            for descriptor in (job.stdout, job.stderr):
                os.fchown(descriptor, job.user, job.user)
        program = Program(
            argv=request.argv,
            cwd=request.cwd,
            env={**request.env, **paths, "HOME": home, "TMPDIR": home},
            stdout=job.stdout,
            stderr=job.stderr,
            user=job.user,
            rules=job.borders.ruleset(request.root, job.folder),
            limits=job.limits,
            processes=job.processes,
        )
        heard, told = os.pipe()
        keeper = os.getpid()
        self._began = time.monotonic()
        self._leader = os.fork()
        if not self._leader:
            if job.cgroup is not None:
                job.cgroup.enter()
            become(program, keeper, told)
        for descriptor in (told, job.stdout, job.stderr):
            os.close(descriptor)
        problem = os.read(heard, 1000)
        os.close(heard)
        if problem:
            os.waitpid(self._leader, 0)
            number, _, text = problem.decode(errors="replace").partition(" ")
            raise OSError(int(number) or errno.EIO, text)

    # -- while it runs -----------------------------------------------------------------------------------------------

    def _watched(self) -> bool:
        """Wait until the hook has ended or must be ended; say whether its time is over."""
        limit = self._began + self._job.request.time_limit
        memory_at = self._began + _FIRST_LOOK
        disk_at = self._began + _DISK_PAUSE
        while self._status is None and not self._childless:
            now = time.monotonic()
            if now >= limit:
                return True
            self._wait(min(limit, memory_at, disk_at) - now)
            if self._quit or self._cancelled or self._status is not None:
                return False
            began = time.monotonic()
            if began >= memory_at:
                self._over = self._beyond_memory()
                memory_at = _next(began, _MEMORY_PAUSE)
            if not self._over and began >= disk_at:
                began = time.monotonic()
                self._over = self._beyond_disk()
                disk_at = _next(began, _DISK_PAUSE)
            if self._over:
                self._quit = True
                return False
        return False

    def _beyond_memory(self) -> str:
        limits = self._job.limits
        pids = [one.pid for one in watch.family(os.getpid()) if one.alive]
        if len(pids) >= limits.processes or sum(map(watch.threads, pids)) >= limits.processes:
            return "processes"
        return "memory" if watch.memory(pids, limits.memory) > limits.memory else ""

    def _beyond_disk(self) -> str:
        limits, folder = self._job.limits, self._job.folder
        size, files = watch.usage(folder, limits.files)
        if files > limits.files:
            return "files"
        pids = [one.pid for one in watch.family(os.getpid()) if one.alive]
        device = os.stat(folder).st_dev
        return "disk" if size + watch.unlinked(pids, device) > limits.disk else ""

    # -- end ---------------------------------------------------------------------------------------------------------

    def _end(self, grace: float) -> bool:
        """End whatever still runs and wait until it is gone; say whether there was anything.

        What has left the group is killed without grace: it has shown that it does not want to be told.
        """
        if self._childless:
            return False
        left = self._status is None or any(one.alive for one in watch.family(os.getpid()))
        if left and not self._quit:
            self._ask(grace)
        pause = _END_PAUSE
        killed_at = time.monotonic()
        told = False
        while not self._childless:
            self._kill()
            self._wait(pause)
            pause = min(2 * pause, 0.1)
            if not told and time.monotonic() > killed_at + _STUCK:
                told = True
                sys.stderr.write(f"windlass runner: the kernel holds a killed process of {self._job.request.package}\n")
        return left

    def _ask(self, grace: float) -> None:
        """Send SIGTERM to the group and give it time."""
        deadline = time.monotonic() + grace
        pause = _END_PAUSE
        if self._group():
            with contextlib.suppress(OSError):
                os.killpg(self._leader, signal.SIGTERM)
        while not self._quit and self._group() and (now := time.monotonic()) < deadline:
            self._wait(min(pause, deadline - now))
            pause = min(2 * pause, 0.1)
            self._over = self._over or self._beyond_memory()
            self._quit = self._quit or bool(self._over)

    def _group(self) -> bool:
        return any(one.alive and one.group == self._leader for one in watch.family(os.getpid()))

    def _kill(self) -> None:
        """Kill all descendants: by groups, which outruns those that multiply, then one by one."""
        if self._job.cgroup is not None:
            self._job.cgroup.kill()
        family = watch.family(os.getpid())
        for group in {one.group for one in family if one.alive} - {os.getpgrp(), 0}:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        known = {one.pid for one in family} | {os.getpid()}
        for one in family:
            if one.alive:
                _kill_one(one.pid, known)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        """Wait for a signal, at most this long, and take note of what has ended."""
        told = signal.sigtimedwait(SIGNALS, max(seconds, 0))
        while told is not None:
            self._cancelled = self._cancelled or told.si_signo == CANCEL
            self._quit = self._quit or told.si_signo not in (CANCEL, signal.SIGCHLD)
            told = signal.sigtimedwait(SIGNALS, 0)
        self._reap()

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self._leader:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._ended = time.monotonic()
        except ChildProcessError:
            self._childless = True


def _next(began: float, pause: float) -> float:
    now = time.monotonic()
    return now + max(pause, min(_SHARE * (now - began), _LONGEST_PAUSE))


def _kill_one(pid: int, known: set[int]) -> None:
    """Kill a process if it is still the one that was seen: ids are given again."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            member = watch.look(pid)
            if member is not None and member.parent in known:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
