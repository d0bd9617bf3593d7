"""Finds the programs: explicit setting, `KUBEBUILDER_ASSETS`, `PATH`, our Python's, then the cache of built ones."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from windlass.devstack.errors import StackError
from windlass.devstack.programs.catalog import Tool, parse_version

_VERSION_TIMEOUT: Final = 10.0  # seconds for a program to print its version


class Source(StrEnum):
    """Where a program was found."""

    SETTING = "setting"
    ASSETS = "KUBEBUILDER_ASSETS"
    PATH = "PATH"
    WHEEL = "PyPI"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Found:
    """A program that will do."""

    path: Path
    version: str
    source: Source


@dataclass(frozen=True, slots=True)
class Location:
    """What the search for one program came to.

    Attributes:
        tool: what was searched.
        found: the program; None when it must be built.
        rejected: why programs that were met on the way will not do, for `windlass doctor`.
    """

    tool: Tool
    found: Found | None
    rejected: tuple[str, ...] = ()


def locate(tool: Tool, tools_dir: Path, env: Mapping[str, str]) -> Location:
    """Search one program; the first that will do wins.

    Args:
        tool: which.
        tools_dir: cache of built programs.
        env: environment that holds the settings.

    Raises:
        StackError: the explicit setting names no program.
    """
    if explicit := env.get(tool.variable):
        return Location(tool, _explicit(tool, Path(explicit)))
    rejected: list[str] = []
    for path, source in _outside(tool, env):
        version = _version(tool, path, env)
        if version is None:
            rejected.append(f"{path} ({source}) does not say its version")
            continue
        dotted = ".".join(str(part) for part in version)
        if tool.accepts(version):
            return Location(tool, Found(path, dotted, source), tuple(rejected))
        rejected.append(f"{path} ({source}) is {dotted}, wanted {tool.wanted}")
    cached = cached_path(tool, tools_dir)
    found = Found(cached, tool.version, Source.CACHE) if _is_program(cached) else None
    return Location(tool, found, tuple(rejected))


def cached_path(tool: Tool, tools_dir: Path) -> Path:
    """Return where the program built from our sources is or will be."""
    return tools_dir / f"{tool.name}-{tool.version}" / tool.name


def _explicit(tool: Tool, path: Path) -> Found:
    if not _is_program(path):
        message = f"{tool.variable} names {path}, which is not an executable file"
        raise StackError(message, hint=f"correct {tool.variable} or unset it")
    version = _version(tool, path, os.environ)
    return Found(path, "unknown" if version is None else ".".join(map(str, version)), Source.SETTING)


def _outside(tool: Tool, env: Mapping[str, str]) -> Iterator[tuple[Path, Source]]:
    if tool.control_plane and (assets := env.get("KUBEBUILDER_ASSETS")):
        candidate = Path(assets) / tool.name
        if _is_program(candidate):
            yield candidate, Source.ASSETS
    for folder in env.get("PATH", "").split(os.pathsep):
        candidate = Path(folder) / tool.name
        if folder and _is_program(candidate):
            yield candidate, Source.PATH
    if tool.wheel:
        candidate = Path(sysconfig.get_path("scripts")) / tool.name
        if _is_program(candidate):
            yield candidate, Source.WHEEL


def _version(tool: Tool, path: Path, env: Mapping[str, str]) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(
            [path, *tool.version_args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            check=False,
            env=dict(env),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stdout + done.stderr) if done.returncode == 0 else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
