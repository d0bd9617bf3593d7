"""The ``helm`` program, for what the library lacks: Helm hooks, installs over unfinished records, rendering."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.adapters.helm.process import MEMORY
from windlass.adapters.helm.protocol import HelmFailedError
from windlass.adapters.processes import leash
from windlass.adapters.processes.group import Tail, finish
from windlass.domain.packages.model import Values
from windlass.ports.helm import ReleaseRef

_MAX_OUTPUT: Final = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Place:
    """A release and the kubeconfig file to reach it with."""

    ref: ReleaseRef
    kubeconfig: Path


class HelmProgram:
    """Runs the program, each call in its own process group that dies with this process.

    ``seconds`` is how long Helm itself waits for a request or a Helm hook. All methods raise `HelmFailedError`.
    """

    def __init__(self, program: Path, environment: Mapping[str, str]) -> None:
        self._program = program
        self._environment = environment

    async def install(self, place: Place, chart: Path, values: Values, *, seconds: float, replace: bool) -> None:
        """Install; with ``replace`` also over records of a release that never worked."""
        options = ["--server-side=false", f"--timeout={seconds:.0f}s", *(["--replace"] if replace else [])]
        await self._run(["install", place.ref.name, str(chart), *options], place, values)

    async def upgrade(self, place: Place, chart: Path, values: Values, *, seconds: float, history_max: int) -> None:
        """Upgrade an existing release to exactly these values."""
        options = ["--reset-values", "--server-side=false", f"--history-max={history_max}", f"--timeout={seconds:.0f}s"]
        await self._run(["upgrade", place.ref.name, str(chart), *options], place, values)

    async def uninstall(self, place: Place, *, seconds: float) -> None:
        """Uninstall with the release's Helm hooks; fine if there is no release."""
        await self._run(["uninstall", place.ref.name, "--ignore-not-found", f"--timeout={seconds:.0f}s"], place)

    async def render(self, place: Place, chart: Path, values: Values, *, upgrade: bool) -> str:
        """Return the rendered manifest; templates may look objects up in the cluster, nothing is changed."""
        options = ["--dry-run=server", *(["--is-upgrade"] if upgrade else [])]
        return await self._run(["template", place.ref.name, str(chart), *options], place, values)

    async def _run(self, arguments: list[str], place: Place, values: Values | None = None) -> str:
        # Values go through stdin: no file with secrets in it can outlive a crash. JSON is YAML.
        given = [] if values is None else ["--values=-"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            leash.__file__,
            str(os.getpid()),
            f"{leash.DATA}{MEMORY}",
            str(self._program),
            *arguments,
            *given,
            f"--namespace={place.ref.namespace}",
            f"--kubeconfig={place.kubeconfig}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - all three were asked for as pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        tail = Tail(process.stderr)
        try:
            _, output = await asyncio.gather(_write(process.stdin, json.dumps(values)), _read(process.stdout))
            await process.wait()
        finally:
            said = await finish(process, tail)
        if process.returncode != 0:
            raise HelmFailedError(_error(said) or f"helm ended with exit status {process.returncode}")
        return output


async def _write(stream: asyncio.StreamWriter, text: str) -> None:
    try:
        stream.write(text.encode())
        await stream.drain()
        stream.close()
        await stream.wait_closed()
    except ConnectionError:
        return  # it ended without reading; its exit status and last words say why


def _error(said: str) -> str:
    """Return what follows the last ``Error:``; before it stand warnings and the same text as a log line."""
    return said.rpartition("Error: ")[2]


async def _read(stream: asyncio.StreamReader) -> str:
    kept = bytearray()
    while chunk := await stream.read(64 * 1024):
        kept += chunk[: _MAX_OUTPUT - len(kept)]
    return kept.decode(errors="replace")
