"""``windlass apply|get|describe|watch|values|delete``: packages as objects of the cluster."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.options import AllNamespaces, DataDir, DocumentFormat, Format, Name, Namespace, Selection
from windlass.cli.output import Document, Output, console, emit
from windlass.domain.errors import Reason, TransientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.domain.ids import PackageKey


def apply(
    file: Annotated[list[str], typer.Option("--file", "-f", help="File or folder of manifests, or - for input.")],
    namespace: Namespace = "",
    wait: Annotated[bool, typer.Option(help="Wait until every package is ready.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 300.0,
    data_dir: DataDir = None,
) -> None:
    """Create or change objects from manifests (server-side apply); all of them are checked before any is applied.

    Packages whose account may not install all of their objects are named on standard error, as far as that can be told
    here; they are applied all the same, since rights may come later.
    """
    from windlass.cli.cluster import cluster
    from windlass.cli.manifests import read_manifests
    from windlass.cli.packages.applying import apply_all
    from windlass.cli.packages.waits import until_all_ready
    from windlass.cli.target import address
    from windlass.contracts.objects import parse_package
    from windlass.domain.ids import Kind

    manifests = [manifest for name in file for manifest in read_manifests(name)]

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            keys: list[PackageKey] = []

            async def warn(accepted: Sequence[dict[str, Any]]) -> None:
                packages = [parse_package(Kind(one["kind"]), one) for one in accepted if _is_package(one)]
                if not packages:
                    return
                from windlass.cli.packages.permissions import foreseen

                for package, found in await foreseen(place, packages):
                    typer.echo(f"{address(package)}: {found.message}\n  {found.hint}", err=True)

            async for stored in apply_all(place, manifests, warn):
                metadata = stored["metadata"]
                where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
                typer.echo(f"{stored['kind']} {metadata['name']}{where} applied")
                if _is_package(stored):
                    keys.append(parse_package(Kind(stored["kind"]), stored).key(place.context.installation))
            if wait:
                await until_all_ready(place, keys, timeout)

    asyncio.run(run())


def _is_package(obj: dict[str, Any]) -> bool:
    from windlass.domain.ids import API_VERSION, Kind

    return obj["apiVersion"] == API_VERSION and obj["kind"] in set(Kind)


def get(
    name: Selection = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: Format = Output.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow changes.")] = False,
    data_dir: DataDir = None,
) -> None:
    """List packages: version, phase, readiness and why; or `actions`, what people have asked for."""
    if watch:
        if output in {Output.JSON, Output.YAML}:
            raise typer.BadParameter("--watch shows tables and lines; programs watch the API", param_hint="--watch")
        _follow(name, namespace, data_dir, all_namespaces=all_namespaces)
        return
    from windlass.cli.actions.listing import WORDS, list_actions
    from windlass.cli.cluster import cluster
    from windlass.cli.target import parse_selection
    from windlass.domain.ids import Kind

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            if name.lower() in WORDS:
                await list_actions(place, output, all_namespaces=all_namespaces)
                return
            target = parse_selection(name)
            if target.name:
                found = [await place.package(name)]
            else:
                found = await place.packages(target.kind, all_namespaces=all_namespaces)
            if output in {Output.JSON, Output.YAML}:
                documents = [one.to_object() for one in found]
                emit(documents[0] if target.name else {"apiVersion": "v1", "kind": "List", "items": documents}, output)
                return
            if not found:
                where = "any namespace" if all_namespaces else f"namespace {place.namespace}"
                sys.stderr.write(f"No packages in {where}.\n" if target.kind is Kind.APPLICATION else "No modules.\n")
                return
            from windlass.cli.packages.views import WIDE, list_table

            wide = output is Output.WIDE
            namespaces = all_namespaces and target.kind is Kind.APPLICATION
            console(at_least=WIDE if wide else 0).print(list_table(found, wide=wide, namespaces=namespaces))

    asyncio.run(run())


def describe(name: Name, namespace: Namespace = "", data_dir: DataDir = None) -> None:
    """Tell everything about one package: step, failure and what to do, conditions, actions, events."""
    from windlass.cli.cluster import cluster
    from windlass.cli.packages.views import description

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            package = await place.package(name)
            events, objects = await asyncio.gather(place.events(package), place.released(package))
            console().print(description(package, events, objects, datetime.now(UTC)))

    asyncio.run(run())


def watch(
    name: Selection = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    data_dir: DataDir = None,
) -> None:
    """Follow packages live, with progress, until Ctrl-C."""
    _follow(name, namespace, data_dir, all_namespaces=all_namespaces)


def _follow(name: str, namespace: str, data_dir: Path | None, *, all_namespaces: bool) -> None:
    from windlass.cli.cluster import cluster
    from windlass.cli.packages.live import follow
    from windlass.cli.target import parse_selection

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            target = parse_selection(name)
            if target.name:
                await place.package(name)
            await follow(place, target, all_namespaces=all_namespaces)

    asyncio.run(run())


def values(
    name: Name,
    namespace: Namespace = "",
    output: DocumentFormat = Document.YAML,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show secrets in clear.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Show the values that the newest release was made with, as its chart sees them."""
    from windlass.cli.cluster import cluster
    from windlass.cli.inspect.values import release_values

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            package = await place.package(name)
            found = await release_values(place, package, show_secrets=show_secrets)
            emit(found, output)

    asyncio.run(run())


def delete(
    name: Name,
    namespace: Namespace = "",
    wait: Annotated[bool, typer.Option(help="Wait until it is gone.")] = True,
    abandon: Annotated[bool, typer.Option(help="Run no hooks and leave the release in the cluster.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 600.0,
    data_dir: DataDir = None,
) -> None:
    """Remove a package: hooks, release, files, object."""
    from windlass.cli.cluster import cluster
    from windlass.cli.packages.waits import until_gone
    from windlass.domain.ids import ABANDON_ANNOTATION

    async def run() -> None:
        async with cluster(namespace, data_dir) as place:
            package = await place.package(name)
            if abandon:
                patch = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
                await place.kube.patch(place.ref(name), patch, kind="merge")
            await place.kube.delete(place.ref(name), uid=package.metadata.uid)
            if not wait:
                typer.echo(f"{name} is being removed; follow it with `windlass watch {name}`")
                return
            async with asyncio.timeout(timeout):
                await until_gone(place, package)
            typer.echo(f"{name} is gone")

    try:
        asyncio.run(run())
    except TimeoutError:
        raise TransientError(
            Reason.UNINSTALL_FAILED,
            f"{name} is not gone within {timeout:g} s",
            hint=f"see what holds it: `windlass describe {name}`; give it up with `windlass delete {name} --abandon`",
        ) from None
