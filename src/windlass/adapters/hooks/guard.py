"""The guard: a shell beside the worker that ends what the worker leaves behind when it is killed.

PR_SET_PDEATHSIG, the usual means, reaches only the process the worker started and not that one's children, is lost
when that process changes its user, and can only be set between fork and exec, where a threaded Python must not run
code of its own. The guard reads the groups to watch from a pipe; when the pipe ends, because the worker closed it or
no longer exists, it kills every group still on the list, and what has left its group but still names the worker's
folder in its environment (`strays`), and removes that folder of run files, which hold values and credentials.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.domain.errors import Reason, TransientError

_CLOSED: Final = -1
_SCRIPT: Final = """
groups=' '
while read -r verb group; do
  case $verb in
    watch) groups="$groups$group " ;;
    forget) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
for round in 1 2 3 4 5; do
  found=$(grep -lsF -- "$1/" /proc/[0-9]*/environ)  # its status speaks of files of others as well
  [ -n "$found" ] || break
  for file in $found; do file=${file#/proc/}; kill -s KILL "${file%%/*}" 2>/dev/null; done
done
rm -rf -- "$1"
"""


class Guard:
    """Watches process groups for one worker process; entered once.

    ``folder`` is removed when the guard is closed and when the worker dies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._groups: set[int] = set()
        self._pipe = _CLOSED
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_the_end(self._stop())

    async def ensure(self) -> None:
        """Start the guard again if somebody ended it; it watches what is running already."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._stop()
                await self._start()
                for group in self._groups:
                    self._tell("watch", group)

    def watch(self, group: int) -> None:
        """Kill ``group`` if the worker dies.

        Raises:
            TransientError: the guard has just been ended by somebody; `ensure` starts another.
        """
        self._tell("watch", group)
        self._groups.add(group)

    def forget(self, group: int) -> None:
        """Leave ``group`` alone from now on: it is gone, and its number may be given to others."""
        if group in self._groups:
            self._groups.discard(group)
            with contextlib.suppress(TransientError):  # a guard that is not there kills nobody
                self._tell("forget", group)

    def _tell(self, verb: str, group: int) -> None:
        try:
            os.write(self._pipe, f"{verb} {group}\n".encode())  # far below PIPE_BUF: whole or not at all
        except OSError:
            raise TransientError(
                Reason.INTERNAL,
                "the process that guards hooks against the worker's death was killed",
                hint="the next attempt starts it again",
            ) from None

    async def _start(self) -> None:
        reader, self._pipe = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _SCRIPT,
                "windlass-hook-guard",
                str(self._folder),
                stdin=reader,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,  # a Ctrl-C at the worker's terminal must not take the guard first
            )
        finally:
            os.close(reader)

    async def _stop(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, _CLOSED
        os.close(pipe)
        await process.wait()
