"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.output import Document, Output

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace; the kubeconfig's if absent.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In every namespace.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="table, wide, json or yaml.")]
DocumentFormat = Annotated[Document, typer.Option("--output", "-o", help="yaml or json.")]
DataDir = Annotated[Path | None, typer.Option(help="Data directory of the stack.")]
Name = Annotated[str, typer.Argument(metavar="[TYPE/]NAME", help="web, app/web or module/ingress.")]
Selection = Annotated[
    str,
    typer.Argument(metavar="[TYPE][/NAME]", help="One package, or a type such as modules; Applications if absent."),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Follow changes until Ctrl-C.")]


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as 90s, 30m, 1h30m or 2d."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is no duration; write it like 90s, 30m, 1h30m or 2d")
    return sum(float(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in parts)


Since = Annotated[
    float | None,
    typer.Option("--since", parser=_seconds, metavar="DURATION", help="Not older than this: 90s, 30m, 1h30m, 2d."),
]
"""Seconds."""


type Command = Callable[..., None]


def taking(argument: str, options: type) -> Callable[[Command], Command]:
    """Give a command the options that a dataclass is made of, after its own.

    Args:
        argument: the command's argument that gets the dataclass.
        options: the dataclass; its fields are annotated as arguments of commands are.
    """
    fields = inspect.signature(options, eval_str=True).parameters

    def given(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def call(**values: Any) -> None:
            made = options(**{name: values.pop(name) for name in fields})
            command(**values, **{argument: made})

        others = [parameter for parameter in own.parameters.values() if parameter.name != argument]
        # Typer makes the command line from the signature.
        call.__signature__ = own.replace(parameters=[*others, *fields.values()])  # pyright: ignore[reportAttributeAccessIssue]  # read by inspect
        return call

    return given
