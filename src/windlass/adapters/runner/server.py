"""The runner's loop: takes requests, forks a keeper for each, and sees to it that nothing outlives the worker.

It has one thread, so forking is safe, and does nothing that waits: what takes time is done by keepers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from typing import Final

from windlass.adapters.runner import cgroups, folders, keeper, kernel, reach, users, watch
from windlass.adapters.runner.confine import Borders
from windlass.adapters.runner.protocol import (
    FILES,
    Config,
    ProtocolError,
    Request,
    decode_request,
    receive,
    send,
)

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_USER_COUNT_AGE: Final = 2.0  # seconds for which a count of a user's processes is used again
_ORPHAN_PAUSE: Final = 20  # milliseconds between two rounds of killing what a killed keeper left behind
_OOM_SCORE: Final = "500"  # proc(5): the kernel short of memory kills hooks before the worker


class Runner:
    """Serves one worker at a time.

    Args:
        config: what it was started with.

    Raises:
        OSError: the folder of runs cannot be made or reached.
    """

    def __init__(self, config: Config) -> None:
        _prefer_to_be_killed()
        kernel.forbid_dumps()
        kernel.adopt_orphans()
        self._config = config
        base = users.available()
        self._users = users.Users(base)
        self._folder, self._lock = folders.claim(config.runs, shared=self._users.own)
        # Before there are mounts of our own, which would hide it from others.
        self._listener = _listener(config.socket) if config.socket else None
        self._problem = self._reachable()
        self._borders = Borders(config.readable, config.writable)
        self._cgroups = cgroups.delegated()
        self._keepers: dict[int, int] = {}  # process id -> number of the run
        self._channel: socket.socket | None = None
        self._stopping = self._orphans = False
        self._counted = (0.0, 0)
        self._runs = 0
        self._wake, signal_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(signal_end, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_STOPPING):
            signal.signal(number, self._signalled)

    def serve(self) -> None:
        """Serve until the worker is gone, or, listening on a path, until told to stop."""
        if self._listener is None:
            self._connected(socket.socket(fileno=os.dup(0)))
        gc.collect()
        gc.freeze()  # keepers share these pages
        while not self._stopping and (self._channel is not None or self._listener is not None):
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            source = self._channel or self._listener
            assert source is not None  # noqa: S101 - the loop's condition
            poll.register(source, select.POLLIN)
            ready = poll.poll(_ORPHAN_PAUSE if self._orphans else None)
            if self._orphans:
                self._reap()
            for descriptor, _ in ready:
                if descriptor == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    self._reap()
                elif self._channel is not None:
                    self._take(self._channel)
                elif self._listener is not None:
                    self._accept(self._listener)
        self._disconnect()
        folders.remove(self._folder)

    # -- the worker --------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            channel, _ = listener.accept()
            if self._is_ours(channel):
                channel.close()
            else:
                self._connected(channel)

    def _is_ours(self, channel: socket.socket) -> bool:
        """Say whether a hook wants to be the worker; in a container of its own the worker has no process id here."""
        peer = int.from_bytes(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        if not peer:
            return False
        return watch.look(peer) is None or any(one.pid == peer for one in watch.family(os.getpid()))

    def _connected(self, channel: socket.socket) -> None:
        self._channel = channel
        hello = {
            "op": "hello",
            "users": self._users.own,
            "landlock": self._borders.version,
            "cgroups": bool(self._cgroups),
            "problem": self._problem,
        }
        try:
            send(channel, hello)
        except OSError:
            self._disconnect()

    def _take(self, channel: socket.socket) -> None:
        try:
            received = receive(channel)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            sys.stderr.write(f"windlass runner: {error}\n")
            received = None
        if received is None:
            self._disconnect()
            return
        message, files = received
        try:
            if message.get("op") == "run":
                self._run(channel, decode_request(message), files)
            elif message.get("op") == "end":
                self._tell(message.get("number"))
        except ProtocolError as error:
            sys.stderr.write(f"windlass runner: not a request: {error}\n")
            self._disconnect()
        finally:
            for file in files:
                os.close(file)

    def _tell(self, number: object) -> None:
        for pid, run in self._keepers.items():
            if run == number:
                os.kill(pid, keeper.CANCEL)

    def _disconnect(self) -> None:
        """The worker is gone: nothing of it may go on."""
        for pid in self._keepers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, keeper.QUIT)
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        while self._keepers:
            select.select([self._wake], [], [], 1.0)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
            self._reap()

    # -- keepers -----------------------------------------------------------------------------------------------------

    def _run(self, channel: socket.socket, request: Request, files: list[int]) -> None:
        if len(files) != FILES:
            raise ProtocolError("files")
        try:
            job = self._job(request, files)
            pid = self._fork(job, channel)
        except OSError as error:
            with contextlib.suppress(OSError):
                problem = f"{error.strerror or error}"
                send(channel, {"op": "failed", "number": request.number, "problem": problem})
        else:
            self._keepers[pid] = request.number

    def _job(self, request: Request, files: list[int]) -> keeper.Job:
        if self._problem:
            raise OSError(0, self._problem)
        root = os.path.realpath(request.root)
        allowed = [os.path.realpath(folder) for folder in self._config.packages]
        if not any(root == folder or root.startswith(f"{folder}/") for folder in allowed):
            raise OSError(0, f"{request.root} is not below a folder of packages")
        user = self._users.of(request.package)
        limits = self._config.limits
        self._runs += 1
        name = f"run-{self._runs}"
        contents, outputs, stdout, stderr = files
        return keeper.Job(
            request=request,
            folder=f"{self._folder}/{name}",
            user=user,
            limits=limits,
            processes=limits.processes if user else limits.processes + self._of_this_user(),
            borders=self._borders,
            cgroup=cgroups.Cgroup(self._cgroups, name, limits) if self._cgroups else None,
            contents=contents,
            outputs=outputs,
            stdout=stdout,
            stderr=stderr,
        )

    def _fork(self, job: keeper.Job, channel: socket.socket) -> int:
        runner = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, keeper.SIGNALS)
        try:
            pid = os.fork()
            if pid:
                return pid
            status = 1
            try:
                signal.set_wakeup_fd(-1)
                keeper.keep(job, runner, channel)
                status = 0
            except BaseException:  # noqa: BLE001 - said below; nothing may leave a forked process
                traceback.print_exc()
            finally:
                os._exit(status)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _of_this_user(self) -> int:
        """Count the threads of this user, which RLIMIT_NPROC is compared with where packages have no users."""
        now = time.monotonic()
        if not self._counted[0] or now > self._counted[0] + _USER_COUNT_AGE:
            self._counted = (now, watch.of_user(os.getuid()))
        return self._counted[1]

    def _reap(self) -> None:
        lost = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                number = self._keepers.pop(pid, None)
                if number is not None and status:
                    lost = True
                    self._lost(number)
        self._orphans = self._kill_orphans() if lost or self._orphans else False

    def _lost(self, number: int) -> None:
        """Say that a keeper was killed; its hook got the same signal, and its orphans are ours now."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                send(self._channel, {"op": "lost", "number": number})

    def _kill_orphans(self) -> bool:
        """Kill all children but keepers, and what those have started; say whether there are any left to look after."""
        family = watch.family(os.getpid())
        orphans = [one.pid for one in family if one.parent == os.getpid() and one.pid not in self._keepers]
        for orphan in orphans:
            for pid in (orphan, *(one.pid for one in watch.family(orphan))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return bool(orphans)

    # -- start -------------------------------------------------------------------------------------------------------

    def _reachable(self) -> str:
        if not self._users.own:
            return ""
        config = self._config
        try:
            reach.uncover([config.runs, *config.packages, *config.writable, *filter(os.path.isdir, config.readable)])
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _signalled(self, number: int, _: object) -> None:
        self._stopping = self._stopping or number in _STOPPING


def _prefer_to_be_killed() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write(_OOM_SCORE)


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    before = os.umask(0o117)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(4)
    return listener
