"""Processes in groups of their own: started with an allow-list environment, killed as a whole, always awaited."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_INHERITED: Final = (
    "PATH",  # credential plugins of the kubeconfig
    "LANG",
    "LC_ALL",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
_TAIL: Final = 8 * 1024


def environment(scratch: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a Helm process.

    Args:
        scratch: folder of the adapter; Helm's own caches and the home folder lie below it.
        inherited: the environment of this process, of which a short allow-list passes.
    """
    kept = {name: inherited[name] for name in _INHERITED if name in inherited}
    return kept | {
        "HOME": str(scratch / "home"),
        "HELM_CACHE_HOME": str(scratch / "helm" / "cache"),
        "HELM_CONFIG_HOME": str(scratch / "helm" / "config"),
        "HELM_DATA_HOME": str(scratch / "helm" / "data"),
        "TMPDIR": str(scratch),
    }


class Tail:
    """Drains a stream and keeps its last 8 KiB, so that a chatty process neither blocks nor fills memory."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._kept = b""
        self._task = asyncio.create_task(self._drain(stream))

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_TAIL):
            self._kept = (self._kept + chunk)[-_TAIL:]

    async def text(self) -> str:
        """Wait for the end of the stream and return what was kept."""
        await self._task
        return self._kept.decode(errors="replace").strip()


def kill_group(process: asyncio.subprocess.Process) -> None:
    """Send SIGKILL to the process and everything in its group; fine if it has ended."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


async def finish(process: asyncio.subprocess.Process, tail: Tail) -> str:
    """Kill the group and wait until the process has ended, however often the caller is cancelled meanwhile.

    Returns what the process last wrote to the drained stream.
    """
    kill_group(process)
    ending = asyncio.ensure_future(_ended(process, tail))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return ending.result()


async def _ended(process: asyncio.subprocess.Process, tail: Tail) -> str:
    await process.wait()
    return await tail.text()
