"""One run in the runner: its pipes and files on this side, and how it ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from windlass.adapters.hooks.commands import Command
from windlass.adapters.hooks.link import Link
from windlass.adapters.hooks.output import Sink
from windlass.adapters.hooks.runfiles import RunFiles, RunOutputs, read_outputs, unnamed_file
from windlass.adapters.hooks.streams import pumped
from windlass.adapters.runner.protocol import Ended as Told
from windlass.adapters.runner.protocol import Limits, Request

TIMEOUT_GRACE: Final = 3.0
"""Seconds between SIGTERM and SIGKILL after a time-out."""

CANCEL_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL after a cancel, and for what a hook leaves behind when it ends."""

_SHELL_STATUS: Final = {126: " (cannot be executed: is its executable bit set?)", 127: " (a program was not found)"}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended, and what it left in its output files."""

    told: Told
    outputs: RunOutputs

    @property
    def failed(self) -> bool:
        """Whether it ended in any other way than by exit status 0."""
        return bool(self.told.over or self.told.timed_out or self.told.status)

    def __str__(self) -> str:
        status = self.told.status
        if status >= 0:
            return f"exit status {status}{_SHELL_STATUS.get(status, '')}"
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"


async def run_process(
    command: Command, package: str, files: RunFiles, *, link: Link, stdout: Sink, stderr: Sink, time_limit: float
) -> Ended:
    """Have ``command`` run until it ends or ``time_limit`` seconds are over.

    Control returns when no process of the run is alive, also when the caller is cancelled.

    Args:
        command: what to run.
        package: whose it is.
        files: what it reads and writes.
        link: to the runner.
        stdout: takes what it prints.
        stderr: takes what it prints there.
        time_limit: seconds.

    Raises:
        OSError: there is no runner, or the process has no descriptor left.
        RunnerLostError: the runner ended meanwhile.
        RunFailedError: the process could not be started.
        ProtocolError: the command is too long.
    """
    request = Request(
        number=link.number(),
        package=package,
        root=str(command.root),
        cwd=str(command.cwd),
        argv=command.argv,
        env=command.env,
        inputs=files.described,
        outputs=tuple(files.outputs),
        time_limit=time_limit,
        timeout_grace=TIMEOUT_GRACE,
        cancel_grace=CANCEL_GRACE,
    )
    with unnamed_file() as contents, unnamed_file() as outputs:
        await files.write(contents)
        async with pumped(stdout) as out, pumped(stderr) as err:

            def sent() -> None:
                out.close()
                err.close()

            descriptors = (contents, outputs, out.descriptor, err.descriptor)
            told = await link.run(request, descriptors, sent)
        return Ended(told=told, outputs=read_outputs(files, told.outputs, outputs))


def exceeded(limit: str, limits: Limits) -> tuple[str, str]:
    """Say that a run went beyond a limit, and which setting holds it."""
    texts = {
        "memory": (f"used more than {limits.memory >> 20} MiB of memory", "WINDLASS_HOOK_MEMORY"),
        "disk": (f"wrote more than {limits.disk >> 20} MiB to its folder", "WINDLASS_HOOK_DISK"),
        "files": (f"made more than {limits.files} files in its folder", "WINDLASS_HOOK_FILES"),
        "processes": (f"had {limits.processes} processes and threads", "WINDLASS_HOOK_PROCESSES"),
    }
    problem, setting = texts[limit]
    return f"{problem} and was ended", f"let it use less, or raise {setting}; it is tried again"
