"""kubectl against a stack, and processes that belong to one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from windlass.devstack.stack import Stack


def kubectl(stack: Stack, *arguments: str, manifest: str = "") -> str:
    """Run kubectl; return its output, fail with its error."""
    done = subprocess.run(
        [stack.tool("kubectl"), f"--kubeconfig={stack.kubeconfig}", *arguments],
        input=manifest,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def get(stack: Stack, *arguments: str) -> Any:
    """Return an object or a list of them."""
    return json.loads(kubectl(stack, "get", "-o", "json", *arguments))


def windlass(*arguments: str, data_dir: Path) -> list[str]:
    """Return the command line of one of our commands."""
    return [sys.executable, "-m", "windlass", *arguments, "--data-dir", str(data_dir)]


def run(*arguments: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end."""
    return subprocess.run(
        windlass(*arguments, data_dir=data_dir), capture_output=True, text=True, timeout=60, check=False
    )


def processes_of(data_dir: Path) -> list[str]:
    """Return the command lines of all processes that name ``data_dir``; a zombie has none any more."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(data_dir) in line:
            found.append(line)
    return found
