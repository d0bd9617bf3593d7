"""What the endpoint of a worker or watcher shows: our metrics and those of Temporal's SDK, and who waits for what."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from prometheus_client import CollectorRegistry, generate_latest

from windlass.monitoring import endpoint

SDK_TIMEOUT: Final = aiohttp.ClientTimeout(total=2)


class Health:
    """Which parts of a process wait for what. A part that stands by is ready: it takes over at once when it has to."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def waits(self, part: str, what: str) -> None:
        """Note that ``part`` is not ready because of ``what``."""
        self._waiting[part] = what

    def ready(self, part: str) -> None:
        """Note that ``part`` does its work, or stands by."""
        self._waiting[part] = ""

    @property
    def missing(self) -> list[str]:
        """What is waited for: empty when everything is ready."""
        return [f"{part}: {what}" for part, what in self._waiting.items() if what]


def free_loopback_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def served(address: str, registry: CollectorRegistry, health: Health, sdk_port: int) -> AsyncGenerator[str]:
    """Serve the endpoint and yield the address in use.

    Args:
        address: ``HOST:PORT`` to listen on; port 0 takes a free one.
        registry: our own metrics.
        health: says whether the process is ready.
        sdk_port: loopback port where Temporal's SDK shows its metrics; they are shown with ours.

    Raises:
        PermanentError: VALIDATION_FAILED, the address cannot be listened on.
    """
    async with aiohttp.ClientSession(timeout=SDK_TIMEOUT) as session:

        async def metrics() -> bytes:
            return await asyncio.to_thread(generate_latest, registry) + await _sdk_metrics(session, sdk_port)

        async with endpoint(
            address,
            metrics=metrics,
            missing=lambda: health.missing,
            hint="set WINDLASS_METRICS_ADDRESS to HOST:PORT; port 0 takes a free one",
        ) as url:
            yield url


async def _sdk_metrics(session: aiohttp.ClientSession, port: int) -> bytes:
    try:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            return await answer.read()
    except (aiohttp.ClientError, TimeoutError):
        return b"# the metrics of Temporal's SDK cannot be read now\n"
