"""``windlass package``: for those who write packages and look for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
) -> None:
    """Say everything that is wrong with packages, as FILE:LINE: problem. Hooks are called with --config."""
    problems = 0
    for path in paths:
        found = _problems(path)
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


def _problems(path: Path) -> list[Problem]:
    import tempfile

    from windlass.adapters.packages.format.lint import Problem
    from windlass.adapters.packages.format.unpack import unpack
    from windlass.cli.context import Context
    from windlass.domain.errors import PermanentError

    try:
        if path.is_dir():
            return _problems_in(path)
        with tempfile.TemporaryDirectory(prefix="windlass-lint-") as folder:
            return _problems_in(unpack(path, Path(folder), Context.find().package_limits))
    except PermanentError as error:
        return [Problem(file="", message=error.message, hint=error.hint)]
    except OSError as error:
        return [Problem(file="", message=f"cannot be read: {error.strerror or error}: {error.filename}")]


def _problems_in(root: Path) -> list[Problem]:
    from windlass.adapters.packages.format import lint as linting

    found = linting.lint(root)
    return found or _hook_problems(root)


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
