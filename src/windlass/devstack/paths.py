"""Where the stack keeps its data and its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

DEFAULT_STACK: Final = "default"


def _xdg(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    # The XDG base directory specification: relative values are invalid and ignored.
    value = env.get(variable, "")
    base = Path(value) if value.startswith("/") else Path(env.get("HOME") or Path.home()) / fallback
    return base / "windlass"


def data_dir(explicit: Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """Return the folder of one stack: ``explicit``, else `WINDLASS_DATA`, else below `XDG_DATA_HOME`."""
    env = os.environ if env is None else env
    chosen = explicit or (Path(value) if (value := env.get("WINDLASS_DATA")) else None)
    return (chosen or _xdg(env, "XDG_DATA_HOME", ".local/share") / DEFAULT_STACK).absolute()


def tools_dir(env: Mapping[str, str] | None = None) -> Path:
    """Return the cache of built programs, one folder ``<name>-<version>`` each, below `XDG_CACHE_HOME`."""
    return _xdg(os.environ if env is None else env, "XDG_CACHE_HOME", ".cache") / "tools"


def ports_file(env: Mapping[str, str] | None = None) -> Path:
    """Return the file in which stacks claim their ports, below `XDG_CACHE_HOME`."""
    return _xdg(os.environ if env is None else env, "XDG_CACHE_HOME", ".cache") / "ports.lock"


def modules_dir() -> Path:
    """Return the folder that holds the `go.mod` files (`windlass.tools` as installed)."""
    return _package_dir("windlass.tools")


def crds_dir() -> Path:
    """Return the folder of Windlass's own CustomResourceDefinitions (`windlass.crds` as installed)."""
    return _package_dir("windlass.crds")


def roles_dir() -> Path:
    """Return the folder of the roles that an installation needs (`windlass.rbac` as installed)."""
    return _package_dir("windlass.rbac")


def policies_dir() -> Path:
    """Return the folder of the admission policies (`windlass.policies` as installed).

    Its subfolder `mutating` needs Kubernetes 1.36.
    """
    return _package_dir("windlass.policies")


def examples_dir() -> Path:
    """Return the folder of the example packages and manifests (`windlass.examples` as installed)."""
    return _package_dir("windlass.examples")


def _package_dir(package: str) -> Path:
    spec = find_spec(package)
    locations = None if spec is None else spec.submodule_search_locations
    if not locations:
        message = f"{package} is not installed: the windlass distribution is incomplete"
        raise ModuleNotFoundError(message, name=package)
    return Path(next(iter(locations)))
