"""What the lifecycle would apply now: the chart, rendered with the very values it would use.

Version and settings are those that are wanted, not those that are released; hook patches are those in the state
Secret. Whoever asks needs the right to read what the settings refer to, and the state Secret.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.cli.cluster import Cluster
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Artifact, Package, Source, Values
from windlass.ports.kube import Object, ObjectRef

if TYPE_CHECKING:
    from windlass.activities.content import Content, Contents
    from windlass.activities.inputs import Inputs
    from windlass.adapters.packages.cache.store import PackageStore
    from windlass.contracts.record import PackageRecord

HOOK: Final = "helm.sh/hook"
"""Helm's annotation on objects that are no part of the release."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A rendered package.

    Attributes:
        artifact: the content it was rendered from.
        values: the merged values; they may hold secrets.
        objects: what the release would hold, with the namespace each object would live in; in the chart's order.
        hooks: Helm's own hooks, which are no part of the release.
    """

    artifact: Artifact
    values: Values
    objects: dict[ObjectRef, Object]
    hooks: dict[ObjectRef, Object]


async def rendered(
    place: Cluster, application: PackageObject, *, version: str = "", settings: Values | None = None
) -> Rendered:
    """Render what the lifecycle would apply now.

    Args:
        place: the cluster and installation.
        application: whose package.
        version: another version than the object names; hook patches of the present version do not hold for it.
        settings: laid over the settings of the object, for a look at what they would do.

    Raises:
        PermanentError: VALIDATION_FAILED, the settings do not fit the package; PACKAGE_NOT_FOUND, it has no chart;
            the chart cannot be rendered.
        TransientError: something that is referred to is missing.
    """
    from windlass.activities.content import Contents
    from windlass.activities.inputs import inputs_of
    from windlass.adapters.kube.records import RecordStore
    from windlass.adapters.packages.cache.store import PackageStore
    from windlass.domain.text.secret_texts import marked_texts, secret_texts

    key = application.key(place.context.installation)
    source = replace(application.source, version=version) if version else application.source
    inputs = await inputs_of(application, repositories=place.kube.get, referenced=place.kube.get)
    digest_key = place.context.digest_key.key
    records = RecordStore(place.kube, digest_key)
    with tempfile.TemporaryDirectory(prefix="windlass-render-") as folder:
        packages = PackageStore(Path(folder) / "packages", place.context.package_limits, place.context.fetch_limits)
        contents = Contents(place.kube, packages, records, digest_key)
        record = (await contents.state(key, application.metadata.uid, None)).record
        artifact = await _pinned(place, packages, source, record, application.home)
        content = await contents.ensure(artifact)
        if not content.package.has_chart:
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND, f"{source} has no chart: there is nothing to render", actor=Actor.USER
            )
        values = _values(contents, content, inputs, record, settings or {}, same=artifact == record.artifact)
        secrets = secret_texts(inputs.concealed()) | marked_texts(values, content.schemas)
        documents = await _manifest(place, application, content, values, secrets, Path(folder) / "helm")
        located = await _located(place, application, documents)
    own = {ref: obj for ref, obj in located.items() if HOOK not in (obj["metadata"].get("annotations") or {})}
    return Rendered(
        artifact=artifact,
        values=values,
        objects=own,
        hooks={ref: obj for ref, obj in located.items() if ref not in own},
    )


async def _pinned(place: Cluster, packages: PackageStore, source: Source, record: PackageRecord, home: str) -> Artifact:
    from windlass.activities.repositories import repository_for

    if record.artifact is not None and record.artifact.source == source:
        return record.artifact
    return await packages.resolve(await repository_for(place.kube, source, home), source)


def _values(
    contents: Contents, content: Content, inputs: Inputs, record: PackageRecord, more: Values, *, same: bool
) -> Values:
    from windlass.domain.settings.chart_schema import check_chart
    from windlass.domain.settings.schema import raise_if_invalid, validate
    from windlass.domain.settings.values import VALUES_ROOT, check_settings
    from windlass.domain.text.tree import merge

    settings = merge(inputs.settings(), more)
    raise_if_invalid(check_settings(content.schemas, settings, concealed=inputs.concealed()))
    patches = record.patches if same else ()
    values = contents.values(content, record.model_copy(update={"settings": settings, "patches": patches}))
    if content.schemas.helm is not None:
        found = validate(values, content.schemas.helm, root=VALUES_ROOT, concealed=values)
        raise_if_invalid(found, what="values for Helm", actor=Actor.AUTHOR)
    raise_if_invalid(check_chart(content.package, values, settings=settings, concealed=values))
    return values


async def _manifest(
    place: Cluster, application: PackageObject, content: Content, values: Values, secrets: frozenset[str], scratch: Path
) -> tuple[Object, ...]:
    from windlass.adapters.helm import manifest
    from windlass.adapters.helm.client import HelmClient
    from windlass.adapters.targets.caller import CallerTargets
    from windlass.domain.ids import owner_name
    from windlass.domain.settings.values import release_values
    from windlass.ports.helm import ReleaseRequest

    package: Package = content.package
    context = place.context
    targets = CallerTargets(place.kube, context.kubeconfig)
    helm = HelmClient(targets=targets, helm=context.helm, scratch=scratch, pool_size=0)
    async with helm:
        text = await helm.render(
            ReleaseRequest(
                ref=place.release(application),
                owner=owner_name(application.key(context.installation)),
                chart=content.root,
                chart_has_hooks=package.chart_has_hooks,
                values=release_values(package, values),
                digest="",
                secrets=secrets,
            ),
            upgrade=application.status is not None and application.status.release is not None,
        )
    return manifest.documents(text)


async def _located(
    place: Cluster, application: PackageObject, documents: tuple[Object, ...]
) -> dict[ObjectRef, Object]:
    from windlass.adapters.helm import manifest

    namespace = place.release(application).namespace
    refs = await manifest.locate([manifest.entry(one) for one in documents], namespace, place.kube)
    return {ref: manifest.placed(one, ref) for ref, one in zip(refs, documents, strict=True)}
