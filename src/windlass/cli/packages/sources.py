"""``windlass package list|versions|show|pull|push``: what repositories hold, without an Application."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.options import Format, taking
from windlass.cli.output import Output, console, emit, rows
from windlass.cli.packages.repository import Reach, Where, repository_at
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import is_list

if TYPE_CHECKING:
    from windlass.adapters.packages.cache.store import PackageStore
    from windlass.domain.packages.model import Artifact, Package

Package_ = Annotated[str, typer.Argument(metavar="PACKAGE", help="Name of the package.", show_default=False)]
Version = Annotated[
    str, typer.Option("--version", help="Exact version, or a range such as ^1.4; the newest if absent.")
]


@taking("reach", Reach)
def list_(
    where: Where,
    output: Format = Output.TABLE,
    *,
    reach: Reach,
) -> None:
    """List the packages of a repository, with the newest version of each."""
    from windlass.domain.packages.wanted import newest

    async def look() -> list[dict[str, Any]]:
        repository = await repository_at(where, reach)
        async with _store() as store:
            offers = await store.scan(repository, [])
        return [
            {"name": offer.name, "version": newest(offer.versions), "versions": len(offer.versions)} for offer in offers
        ]

    found = asyncio.run(look())
    if output in {Output.JSON, Output.YAML}:
        emit(found, output)
        return
    if not found:
        typer.echo(f"No packages in {where}.")
        return
    lines = [[one["name"], one["version"], str(one["versions"])] for one in found]
    console().print(rows(["PACKAGE", "NEWEST", "VERSIONS"], lines))


@taking("reach", Reach)
def versions(
    where: Where,
    package: Package_,
    output: Format = Output.TABLE,
    *,
    reach: Reach,
) -> None:
    """List the versions of a package, oldest first."""

    async def look() -> list[str]:
        repository = await repository_at(where, reach)
        async with _store() as store:
            return await store.versions(repository, package)

    found = asyncio.run(look())
    if not found:
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"{where} has no package {package!r}",
            hint="see `windlass package list`",
            actor=Actor.USER,
        )
    if output in {Output.JSON, Output.YAML}:
        emit(found, output)
        return
    for one in found:
        typer.echo(one)


@taking("reach", Reach)
def show(
    where: Where,
    package: Package_,
    version: Version = "*",
    output: Format = Output.TABLE,
    *,
    reach: Reach,
) -> None:
    """Tell what one version of a package is: description, digest, hooks, settings that it takes."""

    async def look() -> tuple[Artifact, Package]:
        async with _store() as store:
            artifact, _ = await _fetched(store, where, package, version, reach)
            return artifact, await store.load(artifact.digest)

    artifact, found = asyncio.run(look())
    facts: dict[str, Any] = {
        "name": found.definition.name,
        "version": found.definition.version,
        "digest": artifact.digest,
        "type": found.definition.type,
        "stage": found.definition.stage,
        "description": found.definition.descriptions.get("en", ""),
        "kubernetes": found.definition.kubernetes,
        "chart": found.has_chart,
        "hooks": list(found.hook_files),
        "settings": sorted((found.settings_schema or {}).get("properties", {})),
    }
    facts = {name: fact for name, fact in facts.items() if fact not in ("", [], None)}
    if output in {Output.JSON, Output.YAML}:
        emit(facts, output)
        return
    lines = [[name.capitalize(), ", ".join(fact) if is_list(fact) else str(fact)] for name, fact in facts.items()]
    console().print(rows([], lines))


@taking("reach", Reach)
def pull(
    where: Where,
    package: Package_,
    version: Version = "*",
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder below which it is unpacked.")] = Path(),
    *,
    reach: Reach,
) -> None:
    """Unpack one version into OUTPUT/PACKAGE/VERSION, which is how a repository of kind file has it."""
    import shutil

    async def look() -> str:
        async with _store() as store:
            artifact, root = await _fetched(store, where, package, version, reach)
            target = folder / package / artifact.exact
            if target.exists():
                raise PermanentError(
                    Reason.CREATE_PACKAGE_DIR_FAILED,
                    f"{target} exists already",
                    hint="remove it, or choose another folder with --output",
                    actor=Actor.USER,
                )
            try:
                shutil.copytree(root, target, copy_function=_writable)
            except OSError as error:
                raise PermanentError(
                    Reason.CREATE_PACKAGE_DIR_FAILED,
                    f"{target} cannot be written: {error}",
                    hint="choose another folder with --output",
                    actor=Actor.USER,
                ) from error
            return f"{target}  {artifact.digest}"

    typer.echo(asyncio.run(look()))


@taking("reach", Reach)
def push(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A package's folder or archive.", show_default=False)],
    where: Where,
    *,
    reach: Reach,
) -> None:
    """Push a package to an OCI registry under its name and version, as Helm pushes charts."""
    from windlass.adapters.packages.sources.push import push as pushing

    if not path.exists():
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND, f"{path} does not exist", hint="name a folder or an archive", actor=Actor.USER
        )

    async def send() -> str:
        repository = await repository_at(where, reach)
        if repository.spec.get("kind") != "oci":
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{where} is no OCI registry",
                hint="write oci://HOST/PATH, or a PackageRepository of kind oci",
                actor=Actor.USER,
            )
        pushed = await pushing(repository, path)
        return f"{pushed.reference}  {pushed.manifest}"

    typer.echo(asyncio.run(send()))


@asynccontextmanager
async def _store() -> AsyncGenerator[PackageStore]:
    from windlass.adapters.packages.cache.store import PackageStore
    from windlass.cli.context import Context

    context = Context.find()
    with tempfile.TemporaryDirectory(prefix="windlass-package-") as folder:
        yield PackageStore(Path(folder), context.package_limits, context.fetch_limits)


async def _fetched(store: PackageStore, where: str, package: str, version: str, reach: Reach) -> tuple[Artifact, Path]:
    from windlass.domain.packages.model import Source
    from windlass.domain.packages.versions import VersionRangeError
    from windlass.domain.packages.wanted import Wanted

    try:
        Wanted.parse(version)
    except VersionRangeError as error:
        raise typer.BadParameter(str(error), param_hint="--version") from None
    repository = await repository_at(where, reach)
    artifact = await store.resolve(repository, Source(repository=repository.name, package=package, version=version))
    return artifact, await store.ensure(repository, artifact)


def _writable(source: str, target: str) -> str:
    """Copy a file of the cache, where nothing may be written, as one that may be."""
    import shutil

    copied = Path(shutil.copyfile(source, target))
    copied.chmod(0o755 if Path(source).stat().st_mode & 0o111 else 0o644)
    return target
