"""Namespaces that are created for packages."""

from __future__ import annotations

from windlass.domain.errors import Reason, TransientError
from windlass.ports.kube import Kube, ObjectRef


async def ensure_namespace(kube: Kube, name: str) -> None:
    """Create a namespace unless it exists.

    Raises:
        TransientError, PermanentError: whatever keeps it from being created.
    """
    if await kube.get(ObjectRef(api_version="v1", kind="Namespace", name=name)) is not None:
        return
    try:
        await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except TransientError as error:
        if error.reason is not Reason.API_CONFLICT:  # somebody else was faster
            raise
