"""Controllers over NATS: the connection, the buckets, the objects of Kubernetes, and a stop in order."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from windlass.adapters.kube.events import KubeEventLog
from windlass.adapters.kube.following.informer import KubeObjects
from windlass.adapters.nats.access import NatsAccess, access_from
from windlass.adapters.nats.connection import NatsConnection, connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.controllerruntime import IController, Informer
from windlass.ports.events import EventLog
from windlass.ports.kube import Kube


@asynccontextmanager
async def connect_nats(name: str, *, access: NatsAccess | None = None) -> AsyncGenerator[NatsConnection]:
    """Give a connection to NATS that is closed at the end of the block.

    Args:
        name: of the operator: under which the server lists the connection.
        access: where and as whom; None for what the environment says, see `access_from`.

    Raises:
        WindlassError: see `connected` and `access_from`.
    """
    async with connected(access or access_from(os.environ), name=name) as connection:
        yield connection


async def bucket(
    connection: NatsConnection, name: str, *, history: int = 1, ttl: float = 0.0, marker_ttl: float = 0.0
) -> BucketEntities:
    """Return the entities of a bucket, which is created if it does not exist; see `ensure_bucket`."""
    await ensure_bucket(connection, name, history=history, ttl=ttl, marker_ttl=marker_ttl)
    return BucketEntities(connection, name)


def informer(kube: Kube, api_version: str, kind: str, *, namespace: str = "", label_selector: str = "") -> Informer:
    """Return an informer of the objects of one kind; see `KubeObjects`."""
    return Informer(KubeObjects(kube, api_version, kind, namespace=namespace, label_selector=label_selector))


def event_log(kube: Kube, name: str) -> EventLog:
    """Return where the Events of the controller ``name`` go."""
    return KubeEventLog(kube, controller=name)


class WallClock:
    """`ports.Clock` of this machine."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()  # noqa: TID251 - the composition root hands the clock in


async def run_controller(controller: IController, *, threadiness: int = 4) -> None:
    """Run a controller until cancelled, such as by the signal that `windlass.operators.run` waits for.

    Then it stops in order: keys that are being worked on end first.

    Raises:
        WindlassError: see `ControllerRuntime.run`.
    """
    stop = asyncio.Event()
    task = asyncio.ensure_future(controller.run(threadiness, stop))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await task
        raise
