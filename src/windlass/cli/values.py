"""The values of a release, read from what Helm has stored."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, cast

from windlass.cli.cluster import Cluster
from windlass.contracts.objects import Application
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import release_name

HIDDEN = "(hidden: --show-secrets)"


async def release_values(place: Cluster, application: Application, *, show_secrets: bool) -> dict[str, Any]:
    """Return the values of the newest stored revision.

    Text that does not stand in ``spec.settings`` or in the chart's own values is hidden unless ``show_secrets``: it may
    come from a Secret or from a hook.

    Raises:
        PermanentError: there is no release yet.
    """
    name = release_name(place.key(application.metadata.name))
    found = await place.kube.list(
        "v1",
        "Secret",
        namespace=application.metadata.namespace,
        label_selector=f"owner=helm,name={name}",
    )
    if not found.items:
        raise PermanentError(
            Reason.PACKAGE_NOT_FOUND,
            f"{application.metadata.name} has no release yet",
            hint=f"see `windlass describe {application.metadata.name}`",
            actor=Actor.USER,
        )
    newest = max(found.items, key=lambda one: int(one["metadata"]["labels"]["version"]))
    release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(newest["data"]["release"]))))
    values: dict[str, Any] = release.get("config") or {}
    if show_secrets:
        return values
    plain = [application.spec.settings, (release.get("chart") or {}).get("values") or {}]
    return cast("dict[str, Any]", _hidden(values, plain))


def _hidden(value: Any, plain: list[Any]) -> Any:
    """Replace text that stands in none of ``plain`` at the same place."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return {
            key: _hidden(item, [cast("dict[str, Any]", one).get(key) for one in plain if isinstance(one, dict)])
            for key, item in mapping.items()
        }
    if isinstance(value, list):
        return value if value in plain else [_hidden(item, []) for item in cast("list[Any]", value)]
    return HIDDEN if isinstance(value, str) and value not in plain else value
