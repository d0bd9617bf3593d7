"""One process of an installation: signals, order of start and stop, exit code."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, cast

import structlog
from temporalio.client import Client

from windlass import __version__
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.leases import LeaseLostError, held
from windlass.domain.backoff import delay
from windlass.domain.errors import Actor, Category, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import lease_name
from windlass.runtime.packages import PackageLifecycles
from windlass.temporal import telemetry
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.keyring import Keyring
from windlass.worker.app import run_worker
from windlass.worker.settings import Settings
from windlass.worker.watcher import Watcher

WORKER_LEASE: Final = 30.0
"""Seconds until another worker may take over from one that was lost; the same one is back at once."""

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
                    lifecycles = PackageLifecycles(
                        client,
                        installation=settings.installation,
                        shards=settings.shards,
                        limits=settings.limits,
                    )
                    group.create_task(
                        _persist("watcher", lambda _serving: _watch(settings, lifecycles, keyring, identity), stop)
                    )
    except* WindlassError as errors:
        failed = [str(error) for error in errors.exceptions]
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


def _transient(error: BaseException) -> bool:
    """Say whether everything that failed goes away by itself; task groups raise several failures at once."""
    if isinstance(error, BaseExceptionGroup):
        nested = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return all(_transient(one) for one in nested)
    return isinstance(error, TransientError)


async def _serve(
    settings: Settings, client: Client, keyring: Keyring, stop: asyncio.Event, identity: str, serving: asyncio.Event
) -> None:
    """Run lifecycles while holding the installation's worker Lease: two operations never meet on one release."""
    async with _client(settings, "worker-lease") as kube:
        await _ensure_namespace(kube, settings.namespace)
        name = lease_name(settings.installation, "worker")
        async with held(kube, settings.namespace, name, identity, WORKER_LEASE):
            serving.set()
            await run_worker(client, settings, keyring, stop)


async def _watch(settings: Settings, lifecycles: PackageLifecycles, keyring: Keyring, identity: str) -> None:
    """Watch while holding the watcher's Lease."""
    async with _client(settings, "watcher") as kube:
        await _ensure_namespace(kube, settings.namespace)
        async with held(kube, settings.namespace, lease_name(settings.installation, "watcher"), identity):
            _log.info("watcher started", installation=settings.installation)
            await Watcher(
                kube=kube,
                lifecycles=lifecycles,
                installation=settings.installation,
                digest_key=keyring.digest_key,
                resync=settings.resync,
                jitter=lambda: 0.9 + secrets.randbelow(200) / 1000,
            ).run()


def _client(settings: Settings, role: str) -> KubeClient:
    return KubeClient.from_kubeconfig(
        settings.kubeconfig, qps=100, burst=200, user_agent=f"windlass-{role}/{__version__}"
    )


async def _ensure_namespace(kube: KubeClient, name: str) -> None:
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, field_manager="windlass")


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
        yield f"{socket.gethostname()}-{folder}"
