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

from windlass import logs
from windlass.domain.errors import WindlassError


def run(
    main: Callable[[], Coroutine[Any, Any, None]], *, log_format: logs.Format = "console", log_level: str = "info"
) -> NoReturn:
    """Run an operator until it ends, or SIGINT or SIGTERM asks it to; exit with 0, or with 1 after an error.

    Args:
        main: the operator; cancelled by a signal.
        log_format: see `windlass.logs.configure`.
        log_level: see `windlass.logs.configure`.
    """
    logs.configure(log_format, log_level)
    sys.exit(uvloop.run(_until_stopped(main)))


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
        log.error("the operator fails", error=error.message, hint=error.hint)
        return 1
    except Exception:  # noqa: BLE001 - whatever ended the operator is told once, and by the exit code
        log.exception("the operator fails")
        return 1
    return 0
