"""``windlass version``."""

from __future__ import annotations

import platform
import sys
from typing import Annotated

import typer

from windlass.cli.output import Output, emit


def version(
    output: Annotated[Output, typer.Option("--output", "-o", help="table, json or yaml.")] = Output.TABLE,
) -> None:
    """Show the versions of Windlass and of what it uses."""
    from importlib.metadata import version as installed

    from windlass import __version__

    versions = {
        "windlass": __version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in ("temporalio", "kubernetes", "helm-sdkpy", "pydantic")},
    }
    if output in {Output.JSON, Output.YAML}:
        emit(versions, output)
        return
    for name, text in versions.items():
        sys.stdout.write(f"{name:<12} {text}\n")
