"""``windlass import``: manifests of other tools as objects of Windlass. Reads files, asks nothing of any cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from windlass.cli.importing.conversion import Converted

app = typer.Typer(help="Convert manifests of other tools.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep ``kcm`` a subcommand: more tools may follow."""


@app.command()
def kcm(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="File, or folder with all its subfolders.")],
    output_file: Annotated[
        Path | None, typer.Option("--output-file", metavar="FILE", help="Write here; absent: standard output.")
    ] = None,
) -> None:
    """Convert K0rdent's manifests; standard error lists what did not move over, field by field.

    ServiceTemplate, ServiceTemplateChain, ClusterDeployment, MultiClusterService, ServiceSet and
    StateManagementProvider become objects of windlass.dev with the same fields. Exit code 1 says that an object of
    these kinds, or a file that names K0rdent, could not be converted; the others are written.
    """
    from windlass.cli.importing.conversion import KCM_GROUP, KINDS, Credentials, convert
    from windlass.cli.importing.folders import objects_in

    folder = objects_in(path, KCM_GROUP)
    credentials = Credentials.among(one.object for one in folder.objects)
    made = [(one.place, convert(one.object, credentials)) for one in folder.objects]
    _write([one.object for _, one in made if one.object is not None], output_file)
    for place, one in made:
        _tell(place, one)
    for text in folder.unread:
        typer.echo(text, err=True)
    converted = sum(one.object is not None for _, one in made)
    lost = [one for _, one in made if one.object is None]
    typer.echo(
        f"{converted} of {len(made)} objects of {KCM_GROUP} converted, {len(lost)} left out; "
        f"{folder.others} objects of other groups skipped",
        err=True,
    )
    if folder.unread or any(one.kind in KINDS for one in lost):
        raise typer.Exit(1)


def _tell(place: str, one: Converted) -> None:
    verdict = "" if one.object is not None else " left out"
    if one.notes or verdict:
        typer.echo(f"{place}: {one.kind} {one.name}{verdict}", err=True)
    for note in one.notes:
        typer.echo(f"  {note}", err=True)


def _write(objects: list[dict[str, object]], file: Path | None) -> None:
    import yaml

    from windlass.domain.errors import Actor, PermanentError, Reason

    text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True, width=120) if objects else ""
    if file is None:
        typer.echo(text, nl=False)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"--output-file {file}: cannot be written: {error.strerror}",
            hint="name a file in a folder that exists and that you may write to",
            actor=Actor.USER,
        ) from None
