"""``windlass package``: for those who write packages and look for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.options import DataDir
from windlass.cli.packages import sources

if TYPE_CHECKING:
    from windlass.adapters.packages.format.lint import Problem

app = typer.Typer(help="Check, pack, push and find packages.", no_args_is_help=True, add_completion=False)
app.command("list")(sources.list_)
app.command()(sources.versions)
app.command()(sources.show)
app.command()(sources.pull)
app.command()(sources.push)


@app.command()
def lint(
    paths: Annotated[list[Path], typer.Argument(help="Package folders or archives (.tgz).", show_default=False)],
    permissions: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="Also ask the cluster what the package's account may not install; Applications: in this namespace.",
        ),
    ] = "",
    data_dir: DataDir = None,
) -> None:
    """Say everything that is wrong with packages, as FILE:LINE: problem. Hooks are called with --config.

    With --permissions the chart is rendered with default settings and the API server is asked as the account that the
    package would act as, which takes the right to impersonate it (`edit` has it in its namespace).
    """
    problems = 0
    for path in paths:
        found = _problems(path, permissions, data_dir)
        problems += len(found)
        for problem in found:
            line = f":{problem.line}" if problem.line else ""
            typer.echo(f"{path / problem.file}{line}: {problem.message}")
            if problem.hint:
                typer.echo(f"  {problem.hint}")
        if not found:
            typer.echo(f"{path}: ok")
    if problems:
        typer.echo(f"{problems} problem{'s' if problems > 1 else ''}", err=True)
        raise typer.Exit(1)


@app.command()
def pack(
    paths: Annotated[list[Path], typer.Argument(help="Package folders.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the archives.")] = Path(),
) -> None:
    """Write NAME-VERSION.tgz, the same bytes for the same content, and print its content digest."""
    from windlass.adapters.packages.format import pack as packing
    from windlass.domain.errors import Actor, PermanentError, Reason

    for path in paths:
        if not path.is_dir():
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND, f"{path} is no folder", hint="name a package's folder", actor=Actor.USER
            )
        try:
            packed = packing.pack(path, output)
        except OSError as error:
            raise PermanentError(
                Reason.CREATE_PACKAGE_DIR_FAILED,
                f"{path} cannot be packed: {error.strerror or error}: {error.filename}",
                hint="mend the rights of that path, or choose another folder with --output",
                actor=Actor.USER,
            ) from error
        typer.echo(f"{packed.path}  {packed.digest}  {packed.size} bytes")


def _problems(path: Path, namespace: str, data_dir: Path | None) -> list[Problem]:
    import tempfile

    from windlass.adapters.packages.format.lint import Problem
    from windlass.adapters.packages.format.unpack import unpack
    from windlass.cli.context import Context
    from windlass.domain.errors import PermanentError

    try:
        if path.is_dir():
            return _problems_in(path) or _forbidden(path, namespace, data_dir)
        with tempfile.TemporaryDirectory(prefix="windlass-lint-") as folder:
            root = unpack(path, Path(folder), Context.find().package_limits)
            return _problems_in(root) or _forbidden(root, namespace, data_dir)
    except PermanentError as error:
        return [Problem(file="", message=error.message, hint=error.hint)]
    except OSError as error:
        return [Problem(file="", message=f"cannot be read: {error.strerror or error}: {error.filename}")]


def _problems_in(root: Path) -> list[Problem]:
    from windlass.adapters.packages.format import lint as linting

    found = linting.lint(root)
    return found or _hook_problems(root)


def _forbidden(root: Path, namespace: str, data_dir: Path | None) -> list[Problem]:
    """Return what the package's account may not install; what could not be found out goes to standard error."""
    if not namespace:
        return []
    import asyncio

    from windlass.adapters.packages.format.files import CHART
    from windlass.adapters.packages.format.lint import Problem
    from windlass.cli.cluster import cluster
    from windlass.cli.packages.permissions import Told, folder_permissions
    from windlass.domain.errors import WindlassError

    async def ask() -> Told | None:
        async with cluster(namespace, data_dir) as place:
            return await folder_permissions(place, root, namespace)

    try:
        answer = asyncio.run(ask())
    except WindlassError as error:
        typer.echo(f"{root.name}: permissions not checked: {error}", err=True)
        return []
    if answer is None:
        typer.echo(f"{root.name}: permissions not checked: it has no chart, or needs settings", err=True)
        return []
    if answer.unknown:
        typer.echo(f"{root.name}: permissions on {answer.unknown} objects are not known", err=True)
    return [Problem(file=CHART, message=answer.message, hint=answer.hint)] if answer.message else []


def _hook_problems(root: Path) -> list[Problem]:
    """Ask every hook for its bindings, which is what loading the package does."""
    import asyncio
    import os
    import tempfile

    from windlass import logs
    from windlass.activities.hooks.discovery import check_filters
    from windlass.adapters.hooks.runner import HookRunner, RunnerSettings
    from windlass.adapters.jq.client import JqClient
    from windlass.adapters.packages.format.lint import Problem
    from windlass.adapters.packages.format.loader import hook_files
    from windlass.domain.errors import WindlassError

    files = hook_files(root)
    folder_of_package = root.resolve()
    if not files:
        return []
    logs.configure("console", "warning")

    async def ask() -> list[Problem]:
        problems: list[Problem] = []
        with tempfile.TemporaryDirectory(prefix="windlass-lint-") as folder:
            settings = RunnerSettings(runs=Path(folder) / "hooks", packages=(folder_of_package,))
            async with HookRunner(settings, environment=os.environ) as runner, JqClient() as jq:
                for file in files:
                    try:
                        await check_filters(jq, await runner.discover(folder_of_package, [file]))
                    except WindlassError as error:
                        problems.append(Problem(file=file, message=error.message, hint=error.hint))
        return problems

    return asyncio.run(ask())
