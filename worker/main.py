"""One process of an installation: signals, order of start and stop, exit code."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import structlog
from temporalio.client import Client
from temporalio.service import RPCError

from windlass.adapters.kube.coordination.leases import LeaseLostError
from windlass.adapters.processes.leash import forbid_dumps
from windlass.domain.backoff import delay
from windlass.domain.errors import Category, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.faults import text_of
from windlass.observers.metrics import Metrics
from windlass.temporal import search_attributes, telemetry
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.digest_key import DigestKey
from windlass.temporal.keyring import Keyring
from windlass.worker.identity import claimed
from windlass.worker.monitoring import Health, free_loopback_port, served
from windlass.worker.process import POOLS, WATCHER, WORKER, Process
from windlass.worker.settings import Settings
from windlass.worker.waiting import explained

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The two secrets of an installation.

    Attributes:
        payloads: what talks to Temporal needs them.
        digests: what compares objects and keeps state needs it.
    """

    payloads: Keyring
    digests: DigestKey


async def run(settings: Settings, target: TemporalTarget, keys: Keys, parts: Collection[str]) -> int:
    """Run ``parts`` (worker, watcher, helm) until SIGINT or SIGTERM; return the exit code.

    0 after an orderly stop, 1 when something could not be started or gave up.
    """
    forbid_dumps()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    try:
        part = "all" if {WORKER, WATCHER} <= set(parts) else "-".join(sorted(parts))
        with claimed(settings.data_dir, part) as identity:
            role = next(part for part in (WORKER, *POOLS, WATCHER) if part in parts)
            async with _process(settings, target, keys, identity, role) as process, asyncio.TaskGroup() as group:
                if WORKER in parts:
                    group.create_task(_persist(WORKER, partial(process.work, stop), stop, process.metrics))
                for pool in POOLS:
                    if pool in parts:
                        part = partial(process.serve_pool, pool, stop)
                        group.create_task(_persist(pool, part, stop, process.metrics))
                if WATCHER in parts:
                    group.create_task(_persist(WATCHER, process.watch, stop, process.metrics))
    except* WindlassError as errors:
        failed = [str(error) for error in _leaves(errors)]
    for text in failed:
        _log.error("giving up", error=text)
    return EXIT_FAILED if failed else EXIT_OK


@asynccontextmanager
async def _process(
    settings: Settings, target: TemporalTarget, keys: Keys, identity: str, role: str
) -> AsyncGenerator[Process]:
    """Serve metrics and health, and connect to Temporal."""
    sdk_port = free_loopback_port()
    runtime = telemetry.runtime(sdk_port)
    metrics, health = Metrics(settings.installation), Health()
    health.waits("temporal", "a connection")
    async with served(settings.metrics_address, metrics.registry, health, sdk_port):
        client = await connect(
            target,
            keyring=keys.payloads,
            role=role,
            runtime=runtime,
            accept_plain=settings.accept_plain_payloads,
            on_refusal=metrics.refused_payloads.inc,
        )
        await _registered(client)
        health.ready("temporal")
        yield Process(
            settings=settings,
            client=client,
            digest_key=keys.digests.key,
            identity=identity,
            metrics=metrics,
            health=health,
        )


async def _registered(client: Client) -> None:
    """See to it that the namespace has our search attributes.

    Raises:
        PermanentError: as `search_attributes.ensure`.
    """
    try:
        added = await search_attributes.ensure(client)
    except RPCError as error:  # a server may keep its operator service to itself and have the attributes all the same
        _log.warning("search attributes not checked", namespace=client.namespace, status=error.status.name)
        return
    if added:
        _log.info("search attributes registered", namespace=client.namespace, added=added)


async def _persist(
    part: str, once: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event, metrics: Metrics
) -> None:
    """Run one part until ``stop``; whatever ends it earlier is logged, and it runs again with back-off.

    ``once`` sets the event it is given when it serves and ends by itself after ``stop``; before that it is cancelled.

    Raises:
        BaseException: the part has never served and cannot be started as it is configured (see `_hopeless`).
    """
    stopping = asyncio.create_task(stop.wait())
    failures = 0
    served = False
    while not stop.is_set():
        serving = asyncio.Event()
        running = asyncio.ensure_future(once(serving))
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not serving.is_set():
            running.cancel()
        async with explained(f"{part} to stop"):
            [outcome] = await asyncio.gather(running, return_exceptions=True)
        if stop.is_set():
            break
        served = served or serving.is_set()
        if not isinstance(outcome, BaseException):
            outcome = RuntimeError("it has ended without being told to")
        if not served and _hopeless(outcome):
            raise outcome
        failures = 0 if isinstance(outcome, LeaseLostError) else failures + 1
        metrics.interruptions.labels(part).inc()
        if _transient(outcome):
            _log.warning("interrupted", part=part, error=str(outcome), failures=failures)
        else:
            trace = "".join(line for leaf in _leaves(outcome) for line in traceback.format_tb(leaf.__traceback__))
            _log.error("interrupted", part=part, error=text_of(outcome), stack=trace, failures=failures)
        await asyncio.wait([stopping], timeout=delay(Category.TRANSIENT, failures + 1, chance=0.5))
    stopping.cancel()
    _log.info("stopped", part=part)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what failed; task groups raise several failures at once, inside one another."""
    if isinstance(error, BaseExceptionGroup):
        for nested in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(nested)
    else:
        yield error


def _hopeless(error: BaseException) -> bool:
    """Say whether another try of a part that has never worked is pointless: somebody must change its settings.

    Missing rights are none of that: roles may be applied after the process has started.
    """
    leaves = list(_leaves(error))
    return any(isinstance(one, PermanentError) and one.reason is not Reason.FORBIDDEN for one in leaves)


def _transient(error: BaseException) -> bool:
    """Say whether everything that failed goes away by itself."""
    return all(isinstance(one, TransientError) for one in _leaves(error))
