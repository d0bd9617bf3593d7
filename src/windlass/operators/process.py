"""The process of an operator: logs, signals, exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

import structlog
import uvloop
from prometheus_client import generate_latest

from windlass import logs
from windlass.domain.errors import WindlassError
from windlass.monitoring import endpoint


def run(
    main: Callable[[], Coroutine[Any, Any, None]],
    *,
    metrics: str = "",
    log_format: logs.Format = "console",
    log_level: str = "info",
) -> NoReturn:
    """Run an operator until it ends, or SIGINT or SIGTERM asks it to; exit with 0, or with 1 after an error.

    Args:
        main: the operator; cancelled by a signal.
        metrics: ``HOST:PORT`` where ``/metrics`` (prometheus_client's default registry) and ``/healthz`` are served;
            without a host all interfaces, port 0 takes a free one. Empty for neither.
        log_format: see `windlass.logs.configure`.
        log_level: see `windlass.logs.configure`.
    """
    logs.configure(log_format, log_level)
    sys.exit(uvloop.run(_until_stopped(_served(main, metrics) if metrics else main)))


def _served(main: Callable[[], Coroutine[Any, Any, None]], address: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def metrics() -> bytes:
        return await asyncio.to_thread(generate_latest)

    async def served() -> None:
        async with endpoint(address, metrics=metrics, hint="HOST:PORT; port 0 takes a free one"):
            await main()

    return served


async def _until_stopped(main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    log = structlog.stdlib.get_logger(__name__)
    task = asyncio.ensure_future(main())
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    except WindlassError as error:  # says what is wrong and what to do: a trace would bury it
        log.error("ended by an error", error=error.message, hint=error.hint)  # noqa: TRY400 - see above
        return 1
    except Exception:
        log.exception("ended by an error")
        return 1
    return 0
