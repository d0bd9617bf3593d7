"""The same with kopf."""

from __future__ import annotations

import os
from typing import Any

import kopf

PLURAL = f"{os.environ['BENCH_KIND'].lower()}s"


@kopf.on.create("bench.windlass.dev", "v1", PLURAL)
@kopf.on.update("bench.windlass.dev", "v1", PLURAL)
async def seen(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    """Write to status what is in spec."""
    patch.status["seen"] = spec["value"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Leave out what the other one does not do: Events for each handler."""
    settings.posting.enabled = False
