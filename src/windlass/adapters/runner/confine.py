"""What a hook may touch, and the steps between fork and exec that see to it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from windlass.adapters.runner import kernel, landlock
from windlass.adapters.runner.protocol import Limits

_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/var/lib/ca-certificates")

# /etc as a whole may hold secrets, the keyring of a worker for one: what programs read to start, resolve and verify.
_ETC: Final = (
    "alternatives", "bash.bashrc", "bash_completion", "ca-certificates", "ca-certificates.conf", "crypto-policies",
    "debian_version", "default/locale", "environment", "ethertypes", "gai.conf", "group", "host.conf", "hostname",
    "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "locale.alias", "locale.conf",
    "localtime", "magic", "mailcap", "mime.types", "networks", "nsswitch.conf", "openssl", "os-release", "passwd",
    "perl", "pki", "profile", "profile.d", "protocols", "resolv.conf", "rpc", "services", "shells", "ssl", "terminfo",
    "timezone",
)  # fmt: skip

# Processes are not among them. Programs ask these for sizes of pools and memory.
_PROC: Final = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")

_DEVICES: Final = ("full", "null", "random", "tty", "urandom", "zero")

_MAX_DESCRIPTORS: Final = 1024
_HEADROOM: Final = 2  # a process may have this many times the memory limit as data: much of it is never touched
_NICE: Final = 5  # the worker, its Helm and jq children come first

_NOT_ITS_FAULT: Final = (errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EIO)

_NOT_EXECUTABLE: Final = 126  # what a shell answers
_NOT_FOUND: Final = 127


class Borders:
    """What all hooks of a runner may touch, opened once; made when the runner starts.

    Args:
        readable: further files and folders to read and execute.
        writable: folders to write to.
    """

    def __init__(self, readable: Sequence[str], writable: Sequence[str]) -> None:
        self.version = landlock.version()
        names = [*_PROGRAMS, *(f"/etc/{name}" for name in _ETC), *(f"/proc/{name}" for name in _PROC), *readable]
        self._granted: list[tuple[int, int]] = []
        self._grant(names, landlock.READ)
        self._grant((f"/dev/{name}" for name in _DEVICES), landlock.DEVICE)
        self._grant(writable, landlock.READ | landlock.WRITE)

    def ruleset(self, root: str, folder: str) -> int:
        """Return a ruleset that adds a package's folder, to read, and that of the run, to write; -1 without Landlock.

        Raises:
            OSError: one of them is not there, or the kernel refuses.
        """
        if not self.version:
            return -1
        descriptors: list[int] = []
        try:
            descriptors += (os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in (root, folder))
            rights = (landlock.READ, landlock.READ | landlock.WRITE)
            return landlock.ruleset(self.version, [*self._granted, *zip(descriptors, rights, strict=True)])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _grant(self, names: Iterable[str], rights: int) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # machines differ
                self._granted.append((os.open(name, os.O_PATH | os.O_CLOEXEC), rights))


class Program(NamedTuple):
    """What the child becomes; ``user`` 0 keeps the runner's, ``rules`` -1 is no Landlock, ``processes`` the user's."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdout: int
    stderr: int
    user: int
    rules: int
    limits: Limits
    processes: int


def become(program: Program, parent: int, told: int) -> NoReturn:
    """Turn this process, just forked by ``parent``, into a program; what prevents it is written to ``told``.

    Exit status 126 and 127 mean, as in a shell, that the file could not be executed or its interpreter was not found.
    """
    try:
        _confine(program, parent)
    except OSError as error:
        os.write(told, f"{error.errno or 0} {error.strerror or error}".encode()[:500])
        os._exit(_NOT_FOUND)
    try:
        _execute(program)
    except OSError as error:
        if error.errno in _NOT_ITS_FAULT:
            os.write(told, f"{error.errno} {error.strerror}".encode())
        os._exit(_NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE)
    finally:
        os._exit(_NOT_EXECUTABLE)


def _confine(program: Program, parent: int) -> None:
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (program.stdout, 1), (program.stderr, 2)):
        os.dup2(descriptor, target)
    _limit(program)
    if program.user:
        os.setgroups([])
        os.setresgid(program.user, program.user, program.user)
        os.setresuid(program.user, program.user, program.user)
    kernel.signal_at_parents_death(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_NOT_FOUND)
    os.chdir(program.cwd)
    kernel.gain_no_privileges()
    if program.rules >= 0:
        landlock.restrict(program.rules)
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _limit(program: Program) -> None:
    limits = program.limits
    wanted = [
        (resource.RLIMIT_CORE, 0),  # it would hold values
        (resource.RLIMIT_FSIZE, limits.disk),
        (resource.RLIMIT_NOFILE, _MAX_DESCRIPTORS),
        (resource.RLIMIT_DATA, _HEADROOM * limits.memory),
        (resource.RLIMIT_NPROC, program.processes),
    ]
    for kind, most in wanted:
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    os.nice(_NICE)


def _execute(program: Program) -> None:
    try:
        os.execve(program.argv[0], list(program.argv), dict(program.env))  # noqa: S606 - what a hook is
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", ["/bin/sh", *program.argv], dict(program.env))  # noqa: S606 - without a first line, as shells do
