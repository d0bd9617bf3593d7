"""Frees the disk of package contents that nobody uses any more."""

from __future__ import annotations

from typing import Any

import structlog

from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, Kind
from windlass.ports.kube import Kube
from windlass.ports.packages import Packages

_log = structlog.stdlib.get_logger(__name__)


async def sweep(kube: Kube, packages: Packages) -> None:
    """Drop cached content that no package uses or was last released with; what is missed is fetched again.

    At start, when no step is under way here. A cluster that does not answer now costs nothing but disk.
    """
    try:
        listed = [await kube.list(API_VERSION, kind.value) for kind in Kind]
    except WindlassError as error:
        _log.warning("package cache not swept", reason=error.reason.value, error=str(error))
        return
    keep: set[str] = set()
    for item in (item for found in listed for item in found.items):
        status: dict[str, Any] = item.get("status") or {}
        keep |= {str(status.get("digest") or ""), str(status.get("completed") or "").partition("/")[0]}
    dropped = await packages.sweep(sorted(keep))
    if dropped:
        _log.info("package cache swept", dropped=len(dropped))
