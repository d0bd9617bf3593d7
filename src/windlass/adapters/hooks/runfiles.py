"""The files exchanged with one run of a hook (reference: hooks.md section 5)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.ports.hooks import EnabledRun, HookRun

AT_ONCE: Final = 64 * 1024
"""Characters of inputs that are written on the event loop, in 0.2 ms. A thread would wait for the interpreter after
each of its 30 system calls: 2 to 3 ms beside a busy loop. More goes by a thread: the disk may make writers wait."""

MAX_OUTPUT: Final = 4 * 1024 * 1024
"""Bytes of one file written by a hook; one object of the API server has at most 1.5 MiB."""

VALUES_PATCH: Final = "VALUES_JSON_PATCH_PATH"
CONFIG_VALUES_PATCH: Final = "CONFIG_VALUES_JSON_PATCH_PATH"
KUBERNETES_PATCH: Final = "KUBERNETES_PATCH_PATH"
METRICS: Final = "METRICS_PATH"
ENABLED_RESULT: Final = "MODULE_ENABLED_RESULT"
ENABLED_REASON: Final = "MODULE_ENABLED_REASON"

_OUTPUTS: Final = {
    VALUES_PATCH: "values-patch.json",
    CONFIG_VALUES_PATCH: "config-values-patch.json",
    KUBERNETES_PATCH: "kubernetes-patch",
    METRICS: "metrics.json",
}


class OutputError(Exception):
    """One of the files a hook wrote is not what it should be; the text names the file's variable, never content."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable}: {problem}")


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of one run; ``variables`` maps the protocol's variables to their paths."""

    home: Path
    variables: Mapping[str, str]

    def read(self, variable: str) -> str:
        """Return what the hook wrote to one of its output files; empty if it removed the file.

        Raises:
            OutputError: not a plain file any more, too large, or not UTF-8.
        """
        try:
            # The hook may have put anything in its place: no link is followed, and a named pipe does not block.
            descriptor = os.open(self.variables[variable], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise OutputError(variable, f"cannot be read ({error.strerror})") from None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OutputError(variable, "is not a plain file any more")
            content = file.read(MAX_OUTPUT + 1)
        if len(content) > MAX_OUTPUT:
            raise OutputError(variable, f"holds more than {MAX_OUTPUT} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise OutputError(variable, f"is not UTF-8 at byte {error.start}") from None


async def create_enabled_files(folder: Path, run: EnabledRun) -> RunFiles:
    """Make ``folder`` with the files of a module's ``enabled`` script, as `create_run_files`."""
    inputs = {
        "VALUES_PATH": ("values.json", json.dumps(run.values)),
        "CONFIG_VALUES_PATH": ("config-values.json", json.dumps(run.config_values)),
    }
    return await _created(folder, inputs, {ENABLED_RESULT: "enabled-result", ENABLED_REASON: "enabled-reason"})


async def create_run_files(folder: Path, run: HookRun) -> RunFiles:
    """Make ``folder`` with what the hook reads and with empty files for what it writes, all for the owner only.

    Without a kubeconfig in ``run`` the hook is given none.
    """
    inputs = {
        "BINDING_CONTEXT_PATH": ("binding-context.json", json.dumps(run.context)),
        "VALUES_PATH": ("values.json", json.dumps(run.values)),
        "CONFIG_VALUES_PATH": ("config-values.json", json.dumps(run.config_values)),
    }
    if run.kubeconfig:
        inputs["KUBECONFIG"] = ("kubeconfig", run.kubeconfig)
    return await _created(folder, inputs, _OUTPUTS)


async def _created(folder: Path, inputs: Mapping[str, tuple[str, str]], outputs: Mapping[str, str]) -> RunFiles:
    files = {**inputs, **{variable: (name, "") for variable, name in outputs.items()}}
    home = folder / "home"
    if sum(len(content) for _, content in inputs.values()) <= AT_ONCE:
        _write(folder, home, files)
    else:
        await to_the_end(asyncio.to_thread(_write, folder, home, files))
    return RunFiles(home=home, variables={variable: str(folder / name) for variable, (name, _) in files.items()})


def _write(folder: Path, home: Path, files: Mapping[str, tuple[str, str]]) -> None:
    folder.mkdir(mode=0o700)
    home.mkdir(mode=0o700)
    for name, content in files.values():
        with open(folder / name, "xb", opener=_for_the_owner) as file:
            file.write(content.encode())


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
