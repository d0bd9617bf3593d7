"""The warm child process that holds the Helm library: ``python -m windlass.adapters.helm.child PARENT_PID``.

A call into the library cannot be interrupted, so each child works on one order at a time and is killed to cancel it.
Orders come on stdin, replies go to what was stdout; anything the library prints goes to stderr. The child ends when its
parent ends: by the kernel's signal, and by end of file on stdin, which also takes along its own process group
(credential plugins).
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import helm_sdkpy

from windlass.adapters.helm.process import MEMORY
from windlass.adapters.helm.protocol import MAX_TEXT, Order, Reply
from windlass.adapters.helm.staging import staged
from windlass.adapters.processes.leash import die_with_parent, limit_data
from windlass.adapters.processes.warm_child import READY, claim_stdout

SESSION_SECONDS: Final = 2.0
"""How long one view of the cluster's API (discovery, ``.Capabilities``) serves. Building it costs 15 ms of CPU and two
round trips; a chart rendered now sees the API at most this much earlier."""

SESSION_ORDERS: Final = 8
"""How many orders one session serves. Its rate limit allows 100 requests, then 5 a second (client-go), and cannot be
set; an install makes about 5 requests of that kind, an uninstall 10. One more would wait for a second or two."""


@dataclass
class _Session:
    configuration: Any
    surface: int
    made: float
    orders: int = 0

    def serves(self, order: Order, now: float) -> bool:
        young = now - self.made < SESSION_SECONDS and self.orders < SESSION_ORDERS
        return young and self.surface == order.surface


@dataclass
class Sessions:
    """Helm configurations by cluster and namespace, rebuilt when they are used up or the API is known to differ."""

    _kept: dict[tuple[str, str], _Session] = field(default_factory=dict[tuple[str, str], _Session])

    def get(self, order: Order) -> Any:
        """Return a `helm_sdkpy.Configuration` for the order's cluster and namespace."""
        now = time.monotonic()
        self._kept = {key: session for key, session in self._kept.items() if now - session.made < SESSION_SECONDS}
        key = (order.kubeconfig, order.namespace)
        session = self._kept.get(key)
        if session is None or not session.serves(order, now):
            configuration = helm_sdkpy.Configuration(namespace=order.namespace, kubeconfig=order.kubeconfig)
            session = self._kept[key] = _Session(configuration=configuration, surface=order.surface, made=now)
        session.orders += 1
        return session.configuration


def perform(order: Order, sessions: Sessions, runner: asyncio.Runner) -> Reply:
    """Carry out one order; every failure of the library comes back as a reply."""
    try:
        runner.run(_call(order, sessions.get(order)))
    except helm_sdkpy.ReleaseNotFoundError as error:
        return Reply(error=str(error)[:MAX_TEXT], absent=True)
    except OSError as error:
        return Reply(error=f"the chart cannot be staged: {error}"[:MAX_TEXT])
    except helm_sdkpy.HelmError as error:
        return Reply(error=str(error)[:MAX_TEXT] or type(error).__name__)
    return Reply()


async def _call(order: Order, configuration: Any) -> None:
    # Client-side apply on purpose: hooks and people may own fields of a package's objects, and a server-side apply
    # would refuse the release for it. `wait=False`: readiness is awaited outside, where it can be cancelled.
    match order.operation:
        case "install":
            with staged(Path(order.chart), order.metadata, Path(order.folder)) as chart:
                await helm_sdkpy.Install(configuration).run(
                    order.name, str(chart), order.values, wait=False, timeout=order.timeout, server_side_apply=False
                )
        case "upgrade":
            with staged(Path(order.chart), order.metadata, Path(order.folder)) as chart:
                await helm_sdkpy.Upgrade(configuration).run(
                    order.name,
                    str(chart),
                    order.values,
                    wait=False,
                    timeout=order.timeout,
                    max_history=order.history_max,
                    server_side_apply="false",
                    reset_values=True,
                )
        case "uninstall":
            await helm_sdkpy.Uninstall(configuration).run(order.name, wait=False, timeout=order.timeout)


def _read_orders(orders: queue.SimpleQueue[bytes]) -> None:
    for line in sys.stdin.buffer:
        orders.put(line)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serve orders until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    limit_data(MEMORY)
    replies = claim_stdout()
    helm_sdkpy.get_version()  # loads the shared library, so that the first order finds it loaded
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    sessions = Sessions()
    replies.write(READY)
    with asyncio.Runner() as runner:
        while True:
            replies.write(perform(Order.parse(orders.get()), sessions, runner).line())


if __name__ == "__main__":
    main()
