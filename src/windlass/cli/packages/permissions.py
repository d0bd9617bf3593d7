"""Tells what the account of a package may not install before anything is applied.

The chart is rendered here, with the settings of the object and without what hooks will set, and the API server is asked
as the package's account, which takes the right to impersonate it: `edit` and `admin` have it in their namespaces. It is
a courtesy: whoever may not ask, or cannot read the package, is told by the package's conditions later.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.activities.inputs import inputs_of
from windlass.activities.repositories import repository_for
from windlass.adapters.helm import manifest
from windlass.adapters.helm.client import HelmClient
from windlass.adapters.kube.permissions import impersonating, review
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.format import loader
from windlass.adapters.targets.caller import CallerTargets
from windlass.cli.cluster import Cluster
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import WindlassError
from windlass.domain.ids import Kind, PackageKey
from windlass.domain.packages.model import Package, Values
from windlass.domain.permissions import Review, remedy, told
from windlass.domain.settings.schema import prepare_schemas
from windlass.domain.settings.values import base_values, check_settings, release_values
from windlass.domain.target import APPLICATION_ACCOUNT, Placement, Target, Wish, placement_of
from windlass.ports.helm import ReleaseRef, ReleaseRequest

CHECKED_MAX: Final = 20
"""Packages that one `apply` looks at: each takes a download and about half a second of Helm."""

AT_A_TIME: Final = 2

SECONDS: Final = 10.0
"""What looking at all of them may take."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What may not be installed; no message if nothing is forbidden. ``unknown`` counts what could not be told."""

    message: str = ""
    hint: str = ""
    unknown: int = 0


async def folder_permissions(place: Cluster, root: Path, namespace: str) -> Told | None:
    """Say what a package with its default settings may not install; None if it needs settings or has no chart.

    Args:
        place: the cluster.
        root: the package's folder.
        namespace: of an Application that would be made of it; a Module's account is always the same.

    Raises:
        WindlassError: the chart cannot be rendered, or nobody may ask; FORBIDDEN names what is missing.
    """
    package = await asyncio.to_thread(loader.load, root)
    kind = package.definition.type or Kind.APPLICATION
    where = namespace if kind is Kind.APPLICATION else ""
    key = PackageKey(installation=place.context.installation, kind=kind, namespace=where, name=package.definition.name)
    values = _values(package, {})
    if values is None or not package.has_chart:
        return None
    return await _told(place, placement_of(key, Wish()), root, package, values)


async def foreseen(place: Cluster, packages: Sequence[PackageObject]) -> list[tuple[PackageObject, Told]]:
    """Return those packages whose account may not install all of their objects.

    Packages of which this cannot be told, for whatever reason, are left out; so are those beyond `CHECKED_MAX`, and
    those that are not done after `SECONDS`.
    """
    slots = asyncio.Semaphore(AT_A_TIME)

    async def look(package: PackageObject) -> Told | None:
        async with slots:
            try:
                return await _of_object(place, package)
            except (WindlassError, OSError):
                return None

    tasks = {asyncio.create_task(look(package)): package for package in packages[:CHECKED_MAX]}
    done, late = await asyncio.wait(tasks, timeout=SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    answers = [(package, task.result()) for task, package in tasks.items() if task in done]
    return [(package, answer) for package, answer in answers if answer is not None and answer.message]


async def _of_object(place: Cluster, package: PackageObject) -> Told | None:
    placement = package.placement()
    inputs = await inputs_of(package, repositories=place.kube.get, referenced=place.kube.get)
    with tempfile.TemporaryDirectory(prefix="windlass-permissions-") as folder:
        store = PackageStore(Path(folder), place.context.package_limits, place.context.fetch_limits)
        repository = await repository_for(place.kube, package.source)
        artifact = await store.resolve(repository, package.source)
        root = store.cached(artifact.digest) or await store.ensure(repository, artifact)
        content = await store.load(artifact.digest)
        values = _values(content, inputs.settings())
        if values is None or not content.has_chart:
            return None
        return await _told(place, placement, root, content, values)


def _values(package: Package, settings: Values) -> Values | None:
    """Return what the chart gets; None if the settings do not fit, which is told elsewhere."""
    schemas = prepare_schemas(package)
    if check_settings(schemas, settings):
        return None
    return release_values(package, base_values(package, schemas, settings))


async def _told(place: Cluster, placement: Placement, root: Path, package: Package, values: Values) -> Told:
    found = await _review(place, placement, root, package, values)
    if not found.forbidden:
        return Told(unknown=len(found.unknown))
    target = placement.target
    return Told(
        message=told(found.forbidden, target.whom), hint=remedy(found.forbidden, target), unknown=len(found.unknown)
    )


async def _review(place: Cluster, placement: Placement, root: Path, package: Package, values: Values) -> Review:
    target: Target = placement.target
    request = ReleaseRequest(
        ref=ReleaseRef(target=target, name=placement.release),
        owner="",
        chart=root,
        chart_has_hooks=package.chart_has_hooks,
        values=values,
        digest="",
    )
    with tempfile.TemporaryDirectory(prefix="windlass-permissions-") as scratch:
        targets = CallerTargets(place.kube, place.context.kubeconfig)
        helm = HelmClient(targets=targets, helm=place.context.helm, scratch=Path(scratch), pool_size=0)
        async with helm:
            text = await helm.outline(request)
    entries = await asyncio.to_thread(manifest.parse, text)
    refs = await manifest.locate(entries, target.namespace, place.kube)
    unbound = target.account if target.account.name == APPLICATION_ACCOUNT else None
    async with impersonating(place.kube, target.account) as client:
        return await review(client, refs, unbound=unbound, roles=place.kube)
