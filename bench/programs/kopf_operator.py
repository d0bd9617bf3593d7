"""The same with kopf."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("bench.windlass.dev", "v1", "widgets")
@kopf.on.update("bench.windlass.dev", "v1", "widgets")
async def seen(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    """Write to status what is in spec."""
    patch.status["seen"] = spec["value"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Leave out what the other one does not do: Events for each handler."""
    settings.posting.enabled = False
