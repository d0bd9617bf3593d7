"""``windlass operator``: for those who write operators."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

app = typer.Typer(help="Begin an operator of your own.", no_args_is_help=True)

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME_MAX: Final = 40
"""A name becomes a part of Kubernetes names of at most 63 characters."""

_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_TEMPLATES: Final = "windlass.cli.operator_templates"


class Kind(StrEnum):
    """What an operator is built on; each has a folder of templates."""

    FRAMEWORK = "framework"
    CONTROLLERRUNTIME = "controllerruntime"


@app.callback()
def operator() -> None:
    """Begin an operator of your own."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Of the operator and its folder, as web-site.", show_default=False)],
    kind: Annotated[Kind, typer.Option(help="What it is built on.")] = Kind.FRAMEWORK,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make it in.")] = Path(),
    group: Annotated[str, typer.Option(help="API group of its objects, a domain of yours.")] = "example.dev",
) -> None:
    """Write an operator that runs: into the folder NAME, which must not be there yet."""
    from windlass.domain.errors import PermanentError, Reason

    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX:
        raise PermanentError(
            Reason.API_REJECTED,
            f"{name!r} cannot be the name of an operator",
            hint=f"lower-case words joined by '-', at most {_NAME_MAX} characters: web-site",
        )
    if not _GROUP.fullmatch(group):
        raise PermanentError(
            Reason.API_REJECTED, f"{group!r} cannot be an API group", hint="a domain: widgets.example.com"
        )
    folder = output / name
    files = rendered(kind, name, group)
    try:
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    except FileExistsError:
        raise PermanentError(
            Reason.API_REJECTED, f"{folder} is there already", hint="name another folder with --output, or remove it"
        ) from None
    except OSError as error:
        raise PermanentError(
            Reason.API_REJECTED,
            f"{folder} cannot be written: {error.strerror}",
            hint="name another folder with --output",
        ) from error
    for file in files:
        typer.echo(folder / file)
    typer.echo(f"run it: python {folder / 'main.py'}; what it does and how to see it: {folder / 'README.md'}")


def rendered(kind: Kind, name: str, group: str) -> dict[str, str]:
    """Return the files of a new operator by name."""
    from importlib.resources import files
    from string import Template

    singular = name.replace("-", "")
    words = {
        "name": name,
        "Kind": "".join(word.capitalize() for word in name.split("-")),
        "singular": singular,
        "plural": f"{singular}es" if singular.endswith(("s", "x", "ch", "sh")) else f"{singular}s",
        "group": group,
    }
    templates = sorted(files(_TEMPLATES).joinpath(kind.value).iterdir(), key=lambda one: one.name)
    return {
        one.name.removesuffix(".tmpl"): Template(one.read_text()).substitute(words)
        for one in templates
        if one.name.endswith(".tmpl")
    }
