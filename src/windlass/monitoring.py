"""The HTTP endpoint of a process: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for a kubelet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from windlass.domain.errors import Actor, PermanentError, Reason

PORT_MAX: Final = 65_535

_log: Final = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def endpoint(
    address: str,
    *,
    metrics: Callable[[], Awaitable[bytes]],
    missing: Callable[[], Sequence[str]] | None = None,
    hint: str,
) -> AsyncGenerator[str]:
    """Serve the endpoint while the block runs; give its URL.

    Args:
        address: ``HOST:PORT`` to listen on; without a host all interfaces, port 0 takes a free one.
        metrics: returns the metrics in the text format of Prometheus.
        missing: says what keeps the process from being ready; None for no ``/readyz``.
        hint: where the address is set, for whoever set it wrong.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), the address cannot be listened on.
    """

    async def shown(_request: web.Request) -> web.Response:
        return web.Response(body=await metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")  # whoever answers has an event loop that turns

    async def readyz(_request: web.Request) -> web.Response:
        lacks = missing() if missing is not None else ()
        return web.Response(text="\n".join(lacks or ["ok"]) + "\n", status=503 if lacks else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", shown), web.get("/healthz", healthz)])
    if missing is not None:
        app.add_routes([web.get("/readyz", readyz)])
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host.strip("[]") or None, _port(port)).start()
        except (OSError, ValueError) as error:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"metrics cannot be served on {address!r}: {error}",
                hint=hint,
                actor=Actor.ADMIN,
            ) from error
        bound = runner.addresses[0]
        url = f"http://{bound[0]}:{bound[1]}"
        _log.info("metrics served", url=f"{url}/metrics")
        yield url
    finally:
        await runner.cleanup()


def _port(text: str) -> int:
    # uvloop takes any number, and its remainder.
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise ValueError(f"the port is no number from 0 to {PORT_MAX}")
    return int(text)
