"""One process of an installation: signals, order of start and stop, exit code."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import re
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final, cast

import structlog
from temporalio.client import Client

from windlass import __version__
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.leases import LeaseLostError, held
from windlass.adapters.kube.members import Members
from windlass.adapters.kube.shard_table import ShardTable
from windlass.domain.backoff import delay
from windlass.domain.errors import Actor, Category, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import lease_name, member_name
from windlass.ports.kube import ObjectRef
from windlass.runtime.packages import PackageLifecycles
from windlass.temporal import telemetry
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.keyring import Keyring
from windlass.worker.adapters import built
from windlass.worker.app import ShardServer
from windlass.worker.settings import DEFAULT_SHARDS, Settings
from windlass.worker.shards import ShardKeeper
from windlass.worker.sweep import sweep
from windlass.worker.watcher import Watcher

STOP_LIMIT: Final = 12.0
"""Seconds after which an orderly stop ends with work still in flight, well before a kubelet's 30 s: an API server that
does not answer keeps activities going. What runs is cancelled then and taken up by the next worker."""

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1

_log = structlog.stdlib.get_logger(__name__)


async def run(settings: Settings, target: TemporalTarget, keyring: Keyring, *, work: bool, watch: bool) -> int:
    """Run the worker, the watcher, or both until SIGINT or SIGTERM; return the exit code.

    0 after an orderly stop, 1 when something could not be started or gave up.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    try:
        with _claimed(settings, work=work, watch=watch) as identity:
            role = "worker" if work else "watcher"
            client = await connect(target, keyring=keyring, role=role, runtime=telemetry.runtime())
            async with asyncio.TaskGroup() as group:
                if work:
                    group.create_task(
                        _persist(
                            "worker",
                            lambda serving: _serve(settings, client, keyring, stop, identity, serving),
                            stop,
                        )
                    )
                if watch:
                    group.create_task(
                        _persist("watcher", lambda _serving: _watch(settings, client, keyring, identity), stop)
                    )
    except* WindlassError as errors:
        failed = [str(error) for error in _leaves(errors)]
    for text in failed:
        _log.error("giving up", error=text)
    return EXIT_FAILED if failed else EXIT_OK


async def _persist(part: str, once: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
    """Run one part until ``stop``; when its Lease is lost, or the cluster does not answer, again with back-off.

    ``once`` sets the event it is given when it serves and ends by itself after ``stop``; before that it is cancelled.
    """
    stopping = asyncio.create_task(stop.wait())
    failures = 0
    while not stop.is_set():
        serving = asyncio.Event()
        running = asyncio.ensure_future(once(serving))
        await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not serving.is_set():
            running.cancel()
        [outcome] = await asyncio.gather(running, return_exceptions=True)
        if stop.is_set() or not isinstance(outcome, BaseException):
            break
        if not _transient(outcome):
            raise outcome
        failures = 0 if isinstance(outcome, LeaseLostError) else failures + 1
        _log.warning("interrupted", part=part, error=str(outcome), failures=failures)
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


def _transient(error: BaseException) -> bool:
    """Say whether everything that failed goes away by itself."""
    return all(isinstance(one, TransientError) for one in _leaves(error))


async def _serve(
    settings: Settings, client: Client, keyring: Keyring, stop: asyncio.Event, identity: str, serving: asyncio.Event
) -> None:
    """Run lifecycles of this process's share of the shards while holding its Lease."""
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(_client(settings, "shards"))
        await _ensure_namespace(kube, settings.namespace)
        table = ShardTable(kube, settings.namespace, settings.installation)
        await _opened(table, settings)
        members = Members(kube, settings.namespace, settings.installation)
        member = member_name(settings.installation, identity)
        term = f"{member}/{secrets.token_hex(4)}"
        await stack.enter_async_context(members.joined(term))
        serving.set()
        adapters = await stack.enter_async_context(built(settings, keyring))
        await sweep(adapters.kube, adapters.packages)
        server = ShardServer(client, settings, keyring, adapters)
        keeper = ShardKeeper(term=term, table=table, members=members, serve=server)
        _log.info("worker started", installation=settings.installation, member=member, data_dir=str(settings.data_dir))
        await _limited(keeper.run(stop), stop)


async def _limited(work: Coroutine[None, None, None], stop: asyncio.Event) -> None:
    """Await ``work``; cancel it when it has not ended `STOP_LIMIT` after ``stop``."""
    limit = asyncio.timeout(None)

    async def limited() -> None:
        await stop.wait()
        _log.info("worker stopping")
        limit.reschedule(asyncio.get_running_loop().time() + STOP_LIMIT)

    stopping = asyncio.create_task(limited())
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        _log.warning("worker stopped with work in flight, which the next one takes up", seconds=STOP_LIMIT)
    else:
        _log.info("worker stopped")
    finally:
        stopping.cancel()


async def _watch(settings: Settings, client: Client, keyring: Keyring, identity: str) -> None:
    """Watch while holding the watcher's Lease."""
    async with _client(settings, "watcher") as kube:
        await _ensure_namespace(kube, settings.namespace)
        shards = await _opened(ShardTable(kube, settings.namespace, settings.installation), settings)
        async with held(kube, settings.namespace, lease_name(settings.installation, "watcher"), identity):
            _log.info("watcher started", installation=settings.installation)
            await Watcher(
                kube=kube,
                lifecycles=PackageLifecycles(
                    client,
                    installation=settings.installation,
                    shards=shards,
                    limits=settings.limits,
                ),
                installation=settings.installation,
                digest_key=keyring.digest_key,
                resync=settings.resync,
                jitter=lambda: 0.9 + secrets.randbelow(200) / 1000,
            ).run()


async def _opened(table: ShardTable, settings: Settings) -> int:
    """Return the number of shards; a new installation gets the one that is asked for, or the usual one."""
    opened = await table.open(settings.shards or DEFAULT_SHARDS, fixed=settings.shards is not None)
    return opened.count


def _client(settings: Settings, role: str) -> KubeClient:
    return KubeClient.from_kubeconfig(
        settings.kubeconfig, qps=100, burst=200, user_agent=f"windlass-{role}/{__version__}"
    )


async def _ensure_namespace(kube: KubeClient, name: str) -> None:
    if await kube.get(ObjectRef(api_version="v1", kind="Namespace", name=name)) is None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await kube.apply(namespace, field_manager="windlass")


@contextmanager
def _claimed(settings: Settings, *, work: bool, watch: bool) -> Generator[str]:
    """Hold the data directory alone, and yield an identity that is the same after a restart.

    The same identity lets a watcher that was killed take its own Lease back at once; the lock sees to it that no other
    process has it.
    """
    part = "all" if work and watch else "worker" if work else "watcher"
    path = settings.data_dir / f"{part}.lock"
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermanentError(
                Reason.INTERNAL,
                f"another {part} process uses {settings.data_dir}",
                hint="stop it, or give this one a --data-dir of its own",
                actor=Actor.ADMIN,
            ) from None
        folder = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:8]
        yield f"{_NOT_IN_NAMES.sub('-', socket.gethostname().lower())}-{folder}"
