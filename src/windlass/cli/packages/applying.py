"""Applies manifests as one: the API server is asked about each before any of them is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from windlass.cli.cluster import Cluster
from windlass.cli.manifests import Manifest, brought
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError

FIELD_MANAGER: Final = "windlass-cli"

_PLACES_MAX: Final = 5
"""Places named beside the first refusal."""


type Checked = Callable[[Sequence[dict[str, Any]]], Awaitable[None]]


async def apply_all(
    place: Cluster, manifests: Sequence[Manifest], checked: Checked | None = None
) -> AsyncGenerator[dict[str, Any]]:
    """Check all manifests by a dry run of the API server, then apply them in order; yield each object as stored.

    ``checked`` gets the objects as the API server would store them, before any is stored.

    An object in a namespace, or of a kind, that the manifests themselves bring cannot be checked before those exist.

    Raises:
        PermanentError: the API server does not take one; says file, document, object and field, and that nothing was
            applied, or what was.
    """
    ready = [replace(one, object=await _completed(place, one.object)) for one in manifests]
    namespaces, kinds = brought(ready)
    refused: list[tuple[Manifest, WindlassError]] = []
    accepted: list[dict[str, Any]] = []
    for one in ready:
        try:
            accepted.append(await place.kube.apply(one.object, field_manager=FIELD_MANAGER, dry_run=True))
        except WindlassError as error:
            group = one.object["apiVersion"].rpartition("/")[0]
            awaited = one.object["metadata"].get("namespace") in namespaces or (group, one.object["kind"]) in kinds
            # 404 and unknown kinds are transient: what is missing may come, here from the manifests themselves.
            if not (awaited and isinstance(error, TransientError) and error.reason is Reason.API_REJECTED):
                refused.append((one, error))
    if refused:
        (first, error), *others = refused
        more = ", ".join(one.place for one, _ in others[:_PLACES_MAX])
        also = f"; refused too: {more}" + (" and more" if len(others) > _PLACES_MAX else "") if others else ""
        raise _refusal(first, error, f"{also}; nothing was applied") from error
    if checked is not None:
        await checked(accepted)
    for number, one in enumerate(ready):
        try:
            stored = await place.kube.apply(one.object, field_manager=FIELD_MANAGER)
        except WindlassError as error:
            raise _refusal(one, error, f"; {number} of {len(ready)} objects were applied") from error
        yield stored


async def _completed(place: Cluster, document: dict[str, Any]) -> dict[str, Any]:
    """Add the command's namespace and the installation's label where they are left out."""
    info = await place.kube.resource(document["apiVersion"], document["kind"])
    if info is not None and info.namespaced and not document["metadata"].get("namespace"):
        document = {**document, "metadata": {**document["metadata"], "namespace": place.namespace}}
    return place.labelled(document)


def _refusal(manifest: Manifest, error: WindlassError, result: str) -> PermanentError:
    metadata = manifest.object["metadata"]
    name = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return PermanentError(
        error.reason,
        f"{manifest.place}: {manifest.object['kind']} {name}: {error.message}{result}",
        # What the adapter says to a worker, which tries again by itself, does not hold for a person.
        hint=error.hint if isinstance(error, PermanentError) else "correct the object, or try again",
        actor=error.actor if isinstance(error, PermanentError) else Actor.USER,
    )
