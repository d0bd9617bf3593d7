"""Holds a cluster's definitions of our kinds against those that this version of Windlass writes."""

from __future__ import annotations

from typing import Final

from windlass.contracts.crds import definition_names, missing_fields
from windlass.domain.errors import PermanentError
from windlass.ports.kube import Kube, ObjectRef

_API_VERSION: Final = "apiextensions.k8s.io/v1"

_TOLD: Final = 3
"""Fields of one definition that are named."""


async def outdated(kube: Kube) -> list[str]:
    """Say of each definition that is absent or older what it lacks; nothing of those that one may not read.

    Raises:
        TransientError: the API server does not answer.
    """
    return [text for name in definition_names() if (text := await _lacking(kube, name))]


async def _lacking(kube: Kube, name: str) -> str:
    try:
        found = await kube.get(ObjectRef(api_version=_API_VERSION, kind="CustomResourceDefinition", name=name))
    except PermanentError:
        return ""
    if found is None:
        return f"{name} is not there"
    missing = missing_fields(found)
    more = f" and {len(missing) - _TOLD} more" if len(missing) > _TOLD else ""
    return f"{name} lacks {', '.join(missing[:_TOLD])}{more}" if missing else ""
