"""Readiness waits for definitions as new as the worker: with older ones the API server refuses its status writes."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from windlass.adapters.kube.definitions_age import outdated
from windlass.domain.errors import WindlassError
from windlass.ports.kube import Kube
from windlass.worker.monitoring import Health

PART: Final = "definitions"

LOOK_AGAIN: Final = 10.0
"""Seconds between two looks while something is lacking; once all is well, nobody looks any more."""

_log = structlog.stdlib.get_logger(__name__)


async def wait_for_definitions(kube: Kube, health: Health) -> None:
    """Keep ``health`` from being ready until the definitions in the cluster know all that this version writes.

    A rolling update stops at the first worker that is newer than them, while the others go on. Definitions that the
    worker may not read count as new enough.
    """
    told = ""
    health.waits(PART, "a look at them")
    while True:
        try:
            lacking = "; ".join(await outdated(kube))
        except WindlassError as error:
            lacking = error.message
        if not lacking:
            health.ready(PART)
            return
        health.waits(PART, f"{lacking}: apply deploy/crds of this version")
        if lacking != told:
            _log.warning("definitions older than this worker", lacking=lacking, hint="apply deploy/crds")
            told = lacking
        await asyncio.sleep(LOOK_AGAIN)
