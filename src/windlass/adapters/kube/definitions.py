"""`ports.DefinitionAccess`: CustomResourceDefinitions that are there, and served, before anybody watches their kind."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.lifecycle.readiness import State, status_of
from windlass.ports.kube import Kube, Object, ObjectRef

SERVED_SECONDS: Final = 30.0
"""How long the API server may take to serve a kind; it takes well under a second."""

_LOOK_SECONDS: Final = 0.1


class KubeDefinitions:
    """Applies definitions under one field manager.

    Args:
        kube: the client.
        field_manager: owner of the applied fields: the operator's name.
    """

    def __init__(self, kube: Kube, *, field_manager: str) -> None:
        self._kube = kube
        self._field_manager = field_manager

    async def ensure_created(self, definition: Object) -> None:
        """Apply the definition and wait until its kind is served; see `ports.DefinitionAccess`."""
        applied = await self._kube.apply(definition, field_manager=self._field_manager)
        name = str(applied["metadata"]["name"])
        ref = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=name)
        try:
            async with asyncio.timeout(SERVED_SECONDS):
                while (seen := status_of(applied)).state is not State.CURRENT:
                    if seen.state is State.FAILED:
                        raise PermanentError(
                            Reason.API_REJECTED,
                            f"the kind of {name} is not served: {seen.message}",
                            hint="rename the kind, or remove the definition whose names it takes",
                            actor=Actor.ADMIN,
                        )
                    await asyncio.sleep(_LOOK_SECONDS)
                    applied = await self._kube.get(ref) or applied
        except TimeoutError:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the API server does not serve {name} after {SERVED_SECONDS:g} s",
                hint=f"see `kubectl describe crd {name}`",
            ) from None
