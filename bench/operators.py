"""An operator on windlass.framework beside the same one on kopf: changes of custom resources to their status."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from rows import Row
from usage import memory

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions import KubeDefinitions
from windlass.adapters.kube.feed import KubeFeed
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object, ObjectRef, WatchEvent
from windlass.ports.operators import Complete

GROUP: Final = "bench.windlass.dev"
NAMESPACE: Final = "bench-operators"
WITHIN: Final = 900.0
PROGRAMS: Final = Path(__file__).parent / "programs"
OURS: Final = (sys.executable, str(PROGRAMS / "framework_operator.py"))
KOPF: Final = (
    *(sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", "--quiet"),
    str(PROGRAMS / "kopf_operator.py"),
)
DEFINITION: Final[Object] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


class Statuses:
    """When each object's status showed which value."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.at: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def follow(self, kube: KubeClient) -> None:
        """Keep up to date until cancelled."""
        async with aclosing(KubeFeed(kube, f"{GROUP}/v1", "Widget", namespace=NAMESPACE).follow()) as stream:
            async for item in stream:
                match item:
                    case Complete():
                        self._take(item.items)
                    case WatchEvent(type="ADDED" | "MODIFIED"):
                        self._take([item.object])
                    case _:
                        pass

    async def show(self, names: Iterable[str], value: int) -> None:
        """Return when all of them show the value."""
        waiting = set(names)
        async with asyncio.timeout(WITHIN):
            while waiting := {name for name in waiting if self.seen.get(name) != value}:
                self._changed.clear()
                await self._changed.wait()

    def _take(self, objects: Iterable[Object]) -> None:
        now = time.monotonic()
        for one in objects:
            seen = (one.get("status") or {}).get("seen")
            if isinstance(seen, int) and self.seen.get(one["metadata"]["name"]) != seen:
                self.seen[one["metadata"]["name"]], self.at[one["metadata"]["name"]] = seen, now
        self._changed.set()


def _widget(name: str, value: int) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"value": value},
    }


async def _write(kube: KubeClient, name: str, value: int) -> None:
    ref = ObjectRef(api_version=f"{GROUP}/v1", kind="Widget", namespace=NAMESPACE, name=name)
    await kube.patch(ref, {"spec": {"value": value}}, kind="merge")


@asynccontextmanager
async def _running(stack: Stack, folder: Path, command: tuple[str, ...]) -> AsyncGenerator[int]:
    with (folder / "operator.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "KUBECONFIG": str(stack.kubeconfig)}, stdout=log, stderr=log
        )
        try:
            yield process.pid
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                await process.wait()


async def _measured(stack: Stack, folder: Path, command: tuple[str, ...], *, objects: int, samples: int) -> list[float]:
    """Return changes a second, p50 and p99 of one change in milliseconds, and MB for 1,000 objects."""
    names = [f"w{number}" for number in range(objects)]
    statuses = Statuses()
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=2000, burst=2000) as kube:
        await KubeDefinitions(kube, field_manager="bench").ensure_created(DEFINITION)
        await kube.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, field_manager="bench"
        )
        following = asyncio.create_task(statuses.follow(kube))
        try:
            async with _running(stack, folder, command) as pid:
                await kube.create(_widget("first", 1))
                await statuses.show(["first"], 1)
                empty = memory([pid])
                await asyncio.gather(*(kube.create(_widget(name, 1)) for name in names))
                await statuses.show(names, 1)
                began = time.monotonic()
                await asyncio.gather(*(_write(kube, name, 2) for name in names))
                await statuses.show(names, 2)
                rate = objects / (time.monotonic() - began)
                took: list[float] = []
                for number in range(samples):
                    name = names[number % objects]
                    sent = time.monotonic()
                    await _write(kube, name, 3)
                    await statuses.show([name], 3)
                    took.append(1000 * (statuses.at[name] - sent))
                full = memory([pid])
        finally:
            following.cancel()
            await asyncio.wait({following})
            await asyncio.gather(*(_delete(kube, name) for name in ["first", *names]))
    took.sort()
    return [rate, statistics.median(took), took[int(0.99 * (len(took) - 1))], (full - empty) * 1000 / objects]


async def _delete(kube: KubeClient, name: str) -> None:
    await kube.delete(ObjectRef(api_version=f"{GROUP}/v1", kind="Widget", namespace=NAMESPACE, name=name))


async def measure(stack: Stack, folder: Path, *, objects: int, samples: int) -> list[Row]:
    """Measure ours, then kopf, on the same kind, the same objects and the same writes."""
    found: list[Any] = []
    for name, command in (("ours", OURS), ("kopf", KOPF)):
        place = folder / name
        place.mkdir()
        found.append(await _measured(stack, place, command, objects=objects, samples=samples))
    metrics = (("changes", "1/s", objects), ("p50", "ms", samples), ("p99", "ms", samples), ("rss_1000", "MB", 1))
    return [
        Row(name="operator", metric=metric, unit=unit, value=ours, n=n, peer="kopf", peer_value=theirs)
        for (metric, unit, n), ours, theirs in zip(metrics, *found, strict=True)
    ]
