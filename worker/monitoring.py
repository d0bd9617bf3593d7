"""The HTTP endpoint of a process: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for a kubelet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest

from windlass.domain.errors import Actor, PermanentError, Reason

SDK_TIMEOUT: Final = aiohttp.ClientTimeout(total=2)

_log = structlog.stdlib.get_logger(__name__)


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
    host, _, port = address.rpartition(":")
    async with aiohttp.ClientSession(timeout=SDK_TIMEOUT) as session:

        async def metrics(_request: web.Request) -> web.Response:
            ours = await asyncio.to_thread(generate_latest, registry)
            theirs = await _sdk_metrics(session, sdk_port)
            return web.Response(body=ours + theirs, headers={"Content-Type": CONTENT_TYPE})

        async def healthz(_request: web.Request) -> web.Response:
            return web.Response(text="ok\n")  # whoever answers has an event loop that turns

        async def readyz(_request: web.Request) -> web.Response:
            missing = health.missing
            return web.Response(text="\n".join(missing or ["ok"]) + "\n", status=503 if missing else 200)

        app = web.Application()
        app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host.strip("[]") or None, int(port) if port.isdecimal() else -1)
            try:
                await site.start()
            except (OSError, OverflowError, ValueError) as error:
                raise PermanentError(
                    Reason.VALIDATION_FAILED,
                    f"metrics cannot be served on {address!r}: {error}",
                    hint="set WINDLASS_METRICS_ADDRESS to HOST:PORT; port 0 takes a free one",
                    actor=Actor.ADMIN,
                ) from error
            bound = runner.addresses[0]
            url = f"http://{bound[0]}:{bound[1]}"
            _log.info("metrics served", url=f"{url}/metrics")
            yield url
        finally:
            await runner.cleanup()


async def _sdk_metrics(session: aiohttp.ClientSession, port: int) -> bytes:
    try:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            return await answer.read()
    except (aiohttp.ClientError, TimeoutError):
        return b"# the metrics of Temporal's SDK cannot be read now\n"
