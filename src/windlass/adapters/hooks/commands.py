"""What is executed for a hook file, and in which environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_INHERITED: Final = ("LANG", "TZ")
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to run; the runner adds HOME, TMPDIR and the variables of files to ``env``."""

    root: Path
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


def discovery_command(root: Path, path: str, *, worker: Mapping[str, str]) -> Command:
    """Return how to ask the hook at ``path`` below ``root`` for its configuration: ``--config`` only."""
    argv, environment = _call(root, path, worker)
    return Command(root=root, argv=(*argv, "--config"), cwd=root / "hooks", env=environment)


def run_command(root: Path, path: str, *, worker: Mapping[str, str], variables: Mapping[str, str]) -> Command:
    """Return how to run the hook: no arguments, in the folder of its file (reference: hooks.md section 1)."""
    argv, environment = _call(root, path, worker)
    return Command(root=root, argv=argv, cwd=(root / path).parent, env={**environment, **variables})


def _call(root: Path, path: str, worker: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Of the ``worker``'s environment a hook sees search path, language and time zone.

    A Python hook runs under the package's own ``hooks/venv/bin/python3`` if there is one, else by its first line. The
    protocol sets PYTHONHOME for it, which is right only where the folder carries a standard library: an ordinary
    virtual environment would not start.
    """
    file = str(root / path)
    environment = {"PATH": worker.get("PATH", _DEFAULT_PATH)}
    environment |= {name: worker[name] for name in _INHERITED if name in worker}
    venv = root / "hooks" / "venv"
    python = venv / "bin" / "python3"
    if not path.endswith(".py") or not os.access(python, os.X_OK):
        return (file,), environment
    if any(venv.glob("lib/python3*/os.py")):
        environment["PYTHONHOME"] = str(venv)
    return (str(python), file), environment
