"""``windlass diff``: what is wanted against what is there, or against the last release. Changes nothing."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from windlass.cli.options import DataDir, Name, Namespace
from windlass.cli.output import Output, console, emit

DIFFERENT: Final = 1
"""Exit code when something differs, as of diff(1)."""


class Against(StrEnum):
    """What the rendered objects are compared with."""

    LIVE = "live"
    RELEASE = "release"


def diff(
    name: Name,
    namespace: Namespace = "",
    against: Annotated[Against, typer.Option(help="What runs, or what was released last.")] = Against.LIVE,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table (unified diff), json or yaml.")
    ] = Output.TABLE,
    data_dir: DataDir = None,
) -> None:
    """Show what the lifecycle would change now: wanted version and settings against what is there.

    With --against live, the API server completes what is rendered without keeping it, so that defaults and the order of
    fields are no differences; the package itself asks for that. Texts of Secrets are shown as hashes that hold
    for this output only. Exit code 0: no difference; 1: there are some; 2: it could not be told.
    """
    from windlass.cli.cluster import cluster
    from windlass.contracts.inspection import Question, View

    async def run() -> list[dict[str, Any]]:
        from windlass.cli.inspect.endpoint import inspecting

        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            return await endpoint.ask(await endpoint.key(name), View.DIFF, Question(against=against.value))

    differences = asyncio.run(run())
    if output in {Output.JSON, Output.YAML}:
        emit(differences, output)
    else:
        for one in differences:
            _print(one["diff"])
    if differences:
        raise typer.Exit(DIFFERENT)


def _print(text: str) -> None:
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    out = console()
    for line in text.splitlines():
        heading = line.startswith(("+++", "---"))
        out.print(Text(line, "bold" if heading else styles.get(line[:1], "")), soft_wrap=True)
