"""The files exchanged with one run of a hook (reference: hooks.md section 5).

The runner makes them; contents go there and come back in files without a name (memfd), which no disk and no other
process sees.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from windlass.adapters.runner.protocol import Input, Output
from windlass.ports.hooks import EnabledRun, HookRun

AT_ONCE: Final = 64 * 1024
"""Bytes of inputs that are written on the event loop; more goes by a thread: 2 to 3 ms beside a busy loop."""

VALUES_PATCH: Final = "VALUES_JSON_PATCH_PATH"
CONFIG_VALUES_PATCH: Final = "CONFIG_VALUES_JSON_PATCH_PATH"
KUBERNETES_PATCH: Final = "KUBERNETES_PATCH_PATH"
METRICS: Final = "METRICS_PATH"
ENABLED_RESULT: Final = "MODULE_ENABLED_RESULT"
ENABLED_REASON: Final = "MODULE_ENABLED_REASON"

_OUTPUTS: Final = (
    (VALUES_PATCH, "values-patch.json"),
    (CONFIG_VALUES_PATCH, "config-values-patch.json"),
    (KUBERNETES_PATCH, "kubernetes-patch"),
    (METRICS, "metrics.json"),
)


class OutputError(Exception):
    """One of the files a hook wrote is not what it should be; the text names the file's variable, never content."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable}: {problem}")


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of one run: variable, name and content of each input, variable and name of each output."""

    inputs: Sequence[tuple[str, str, bytes]] = ()
    outputs: Sequence[tuple[str, str]] = ()

    @property
    def described(self) -> tuple[Input, ...]:
        """What the runner is told of the inputs."""
        return tuple(Input(variable, name, len(content)) for variable, name, content in self.inputs)

    async def write(self, descriptor: int) -> None:
        """Write the contents of the inputs, one after another."""
        content = b"".join(content for _, _, content in self.inputs)
        if len(content) <= AT_ONCE:
            _write(descriptor, content)
        else:
            await asyncio.to_thread(_write, descriptor, content)


@dataclass(frozen=True, kw_only=True)
class RunOutputs:
    """What a hook left in its output files: by variable its content, or what is wrong with the file."""

    contents: Mapping[str, bytes]
    problems: Mapping[str, str]

    def read(self, variable: str) -> str:
        """Return what the hook wrote to one of its output files; empty if it removed the file.

        Raises:
            OutputError: not a plain file any more, too large, or not UTF-8.
        """
        if problem := self.problems.get(variable):
            raise OutputError(variable, problem)
        try:
            return self.contents.get(variable, b"").decode()
        except UnicodeDecodeError as error:
            raise OutputError(variable, f"is not UTF-8 at byte {error.start}") from None


def read_outputs(files: RunFiles, found: Sequence[Output], descriptor: int) -> RunOutputs:
    """Read the outputs that the runner wrote one after another into ``descriptor``, of the sizes that it tells."""
    contents: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    offset = 0
    for (variable, _), output in zip(files.outputs, found, strict=True):
        contents[variable] = os.pread(descriptor, output.size, offset)
        offset += output.size
        if output.problem:
            problems[variable] = output.problem
    return RunOutputs(contents=contents, problems=problems)


@contextmanager
def unnamed_file() -> Generator[int]:
    """Make a file in memory without a name."""
    descriptor = os.memfd_create("windlass-run")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def enabled_files(run: EnabledRun) -> RunFiles:
    """Return the files of a module's ``enabled`` script."""
    return RunFiles(
        inputs=(
            ("VALUES_PATH", "values.json", json.dumps(run.values).encode()),
            ("CONFIG_VALUES_PATH", "config-values.json", json.dumps(run.config_values).encode()),
        ),
        outputs=((ENABLED_RESULT, "enabled-result"), (ENABLED_REASON, "enabled-reason")),
    )


def run_files(run: HookRun) -> RunFiles:
    """Return the files of a hook's run. Without a kubeconfig in ``run`` the hook is given none."""
    inputs = [
        ("BINDING_CONTEXT_PATH", "binding-context.json", json.dumps(run.context).encode()),
        ("VALUES_PATH", "values.json", json.dumps(run.values).encode()),
        ("CONFIG_VALUES_PATH", "config-values.json", json.dumps(run.config_values).encode()),
    ]
    if run.kubeconfig:
        inputs.append(("KUBECONFIG", "kubeconfig", run.kubeconfig.encode()))
    return RunFiles(inputs=inputs, outputs=_OUTPUTS)


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
