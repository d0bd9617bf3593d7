"""What the lifecycle would apply now: the chart, rendered with the very values it would use.

Version and settings are those that are wanted, not those that are released; hook patches are those in the state
Secret. References, cluster and ``lookup`` are read as the package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from windlass.activities.content import Content
from windlass.activities.inputs import Inputs
from windlass.activities.repositories import repository_for
from windlass.adapters.helm import manifest
from windlass.contracts.objects import PackageObject
from windlass.contracts.record import PackageRecord
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import owner_name
from windlass.domain.packages.model import Artifact, Package, Source, Values
from windlass.domain.settings.chart_schema import check_chart
from windlass.domain.settings.schema import raise_if_invalid, validate
from windlass.domain.settings.values import VALUES_ROOT, check_settings, release_values
from windlass.domain.text.secret_texts import marked_texts, secret_texts
from windlass.domain.text.tree import merge
from windlass.observers.inspection.surroundings import Surroundings
from windlass.ports.helm import ReleaseRequest
from windlass.ports.kube import Object, ObjectRef

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
        secrets: texts among the values that came from Secrets or that a schema marks as secret.
    """

    artifact: Artifact
    values: Values
    objects: dict[ObjectRef, Object]
    hooks: dict[ObjectRef, Object]
    secrets: frozenset[str]


async def rendered(
    around: Surroundings, package: PackageObject, inputs: Inputs, *, version: str = "", settings: Values | None = None
) -> Rendered:
    """Render what the lifecycle would apply now.

    Args:
        around: where to read.
        package: whose.
        inputs: what its object refers to.
        version: another version than the object names; hook patches of the present version do not hold for it.
        settings: laid over the settings of the object, for a look at what they would do.

    Raises:
        PermanentError: VALIDATION_FAILED, the settings do not fit the package; PACKAGE_NOT_FOUND, it has no chart;
            the chart cannot be rendered.
        TransientError: something that is referred to is missing.
    """
    key = package.key(around.installation)
    source = replace(package.source, version=version) if version else package.source
    record = (await around.contents.state(key, package.metadata.uid, None)).record
    artifact = await _pinned(around, source, record, package.home)
    content = await around.contents.ensure(artifact)
    if not content.package.has_chart:
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND, f"{source} has no chart: there is nothing to render", actor=Actor.USER
        )
    values = _values(around, content, inputs, record, settings or {}, same=artifact == record.artifact)
    secrets = secret_texts(inputs.concealed()) | marked_texts(values, content.schemas)
    documents = await _manifest(around, package, content, values, secrets)
    located = await _located(around, package, documents)
    own = {ref: obj for ref, obj in located.items() if HOOK not in (obj["metadata"].get("annotations") or {})}
    return Rendered(
        artifact=artifact,
        values=values,
        objects=own,
        hooks={ref: obj for ref, obj in located.items() if ref not in own},
        secrets=secrets,
    )


async def _pinned(around: Surroundings, source: Source, record: PackageRecord, home: str) -> Artifact:
    if record.artifact is not None and record.artifact.source == source:
        return record.artifact
    return await around.packages.resolve(await repository_for(around.kube, source, home), source)


def _values(
    around: Surroundings, content: Content, inputs: Inputs, record: PackageRecord, more: Values, *, same: bool
) -> Values:
    settings = merge(inputs.settings(), more)
    raise_if_invalid(check_settings(content.schemas, settings, concealed=inputs.concealed()))
    patches = record.patches if same else ()
    values = around.contents.values(content, record.model_copy(update={"settings": settings, "patches": patches}))
    if content.schemas.helm is not None:
        found = validate(values, content.schemas.helm, root=VALUES_ROOT, concealed=values)
        raise_if_invalid(found, what="values for Helm", actor=Actor.AUTHOR)
    raise_if_invalid(check_chart(content.package, values, settings=settings, concealed=values))
    return values


async def _manifest(
    around: Surroundings, package: PackageObject, content: Content, values: Values, secrets: frozenset[str]
) -> tuple[Object, ...]:
    chart: Package = content.package
    text = await around.renderer.render(
        ReleaseRequest(
            ref=around.release(package),
            owner=owner_name(package.key(around.installation)),
            chart=content.root,
            chart_has_hooks=chart.chart_has_hooks,
            values=release_values(chart, values),
            digest="",
            secrets=secrets,
        ),
        upgrade=package.status is not None and package.status.release is not None,
    )
    return manifest.documents(text)


async def _located(
    around: Surroundings, package: PackageObject, documents: tuple[Object, ...]
) -> dict[ObjectRef, Object]:
    namespace = around.release(package).namespace
    async with around.acting(package) as kube:
        refs = await manifest.locate([manifest.entry(one) for one in documents], namespace, kube)
    return {ref: manifest.placed(one, ref) for ref, one in zip(refs, documents, strict=True)}
