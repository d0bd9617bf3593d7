"""The sources of Windlass as trees of syntax."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def folders() -> dict[str, Path]:
    """Import package to folder, for every package that `pyproject.toml` lists."""
    setuptools = project()["tool"]["setuptools"]
    mapped: dict[str, str] = setuptools["package-dir"]
    found: dict[str, Path] = {}
    for name in setuptools["packages"]:
        owner = max((known for known in mapped if name == known or name.startswith(f"{known}.")), key=len)
        found[name] = ROOT.joinpath(mapped[owner], *name[len(owner) :].strip(".").split("."))
    return found


@cache
def modules() -> dict[str, Path]:
    """Import name to file, for every module that is shipped."""
    return {
        package if path.stem == "__init__" else f"{package}.{path.stem}": path
        for package, folder in folders().items()
        for path in sorted(folder.glob("*.py"))
    }


def tracked(*patterns: str) -> list[Path]:
    """The files of the repository that match; in an unpacked archive all files, without what tools put beside them."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True)
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]
    found = {path for pattern in patterns for path in ROOT.rglob(pattern) if path.is_file()}
    return sorted(path for path in found if not _made(path.relative_to(ROOT)))


def _made(path: Path) -> bool:
    return path.parts[0] in {"build", "dist"} or any(part.startswith(".") for part in path.parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))
