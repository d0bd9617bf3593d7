"""An operator on windlass.framework beside the same one on kopf: changes of custom resources to their status."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rows import Row
from usage import memory

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions import KubeDefinitions
from windlass.adapters.kube.following.feed import KubeFeed
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object, ObjectRef, WatchEvent
from windlass.ports.operators import Complete

GROUP: Final = "bench.windlass.dev"
NAMESPACE: Final = "bench-operators"
WITHIN: Final = 900.0
ROUNDS: Final = 2
"""Bursts of each operator, in turns."""

PROGRAMS: Final = Path(__file__).parent / "programs"
OURS: Final = (sys.executable, str(PROGRAMS / "framework_operator.py"))
KOPF: Final = (
    *(sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", "--quiet"),
    str(PROGRAMS / "kopf_operator.py"),
)


def _definition(kind: str) -> Object:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


class Statuses:
    """When the status of each object of a kind showed which value."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.seen: dict[str, int] = {}
        self.at: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def follow(self, kube: KubeClient) -> None:
        """Keep up to date until cancelled."""
        async with aclosing(KubeFeed(kube, f"{GROUP}/v1", self._kind, namespace=NAMESPACE).follow()) as stream:
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


@dataclass
class Subject:
    """One operator with the objects of its kind."""

    kind: str
    kube: KubeClient
    statuses: Statuses
    pid: int
    empty: float = 0.0
    took: list[float] = field(default_factory=list[float])
    seconds: float = 0.0

    async def begin(self, names: Sequence[str]) -> None:
        """Create one object, look at the memory, create the others."""
        await self._create("first")
        await self.statuses.show(["first"], 1)
        self.empty = memory([self.pid])
        await asyncio.gather(*(self._create(name) for name in names))
        await self.statuses.show(names, 1)

    async def burst(self, names: Sequence[str], value: int) -> None:
        """Change all objects at once."""
        began = time.monotonic()
        await asyncio.gather(*(self._write(name, value) for name in names))
        await self.statuses.show(names, value)
        self.seconds += time.monotonic() - began

    async def change(self, name: str, value: int) -> None:
        """Change one object."""
        sent = time.monotonic()
        await self._write(name, value)
        await self.statuses.show([name], value)
        self.took.append(1000 * (self.statuses.at[name] - sent))

    async def end(self, names: Sequence[str]) -> None:
        """Delete the objects."""
        await asyncio.gather(*(self.kube.delete(self._ref(name)) for name in ["first", *names]))

    def figures(self, objects: int) -> list[float]:
        """Return changes a second, p50 and p99 of one change in milliseconds, and MB for 1,000 objects."""
        took = sorted(self.took)
        p99 = took[int(0.99 * (len(took) - 1))]
        grown = memory([self.pid]) - self.empty
        return [ROUNDS * objects / self.seconds, statistics.median(took), p99, grown * 1000 / objects]

    def _ref(self, name: str) -> ObjectRef:
        return ObjectRef(api_version=f"{GROUP}/v1", kind=self.kind, namespace=NAMESPACE, name=name)

    async def _create(self, name: str) -> None:
        metadata = {"namespace": NAMESPACE, "name": name}
        await self.kube.create(
            {"apiVersion": f"{GROUP}/v1", "kind": self.kind, "metadata": metadata, "spec": {"value": 1}}
        )

    async def _write(self, name: str, value: int) -> None:
        await self.kube.patch(self._ref(name), {"spec": {"value": value}}, kind="merge")


@asynccontextmanager
async def _subject(
    stack: Stack, folder: Path, kube: KubeClient, kind: str, command: tuple[str, ...]
) -> AsyncGenerator[Subject]:
    await KubeDefinitions(kube, field_manager="bench").ensure_created(_definition(kind))
    statuses = Statuses(kind)
    following = asyncio.create_task(statuses.follow(kube))
    env = {**os.environ, "KUBECONFIG": str(stack.kubeconfig), "BENCH_KIND": kind}
    with (folder / f"{kind.lower()}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, env=env, stdout=log, stderr=log)
    try:
        yield Subject(kind, kube, statuses, process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        following.cancel()
        await asyncio.wait({following})


async def measure(stack: Stack, folder: Path, *, objects: int, samples: int) -> list[Row]:
    """Measure both on the same work, in turns: what else the machine does meets both alike."""
    names = [f"w{number}" for number in range(objects)]
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=2000, burst=2000) as kube:
        await kube.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, field_manager="bench"
        )
        async with (
            _subject(stack, folder, kube, "Widget", OURS) as ours,
            _subject(stack, folder, kube, "Gadget", KOPF) as kopf,
        ):
            both = (ours, kopf)
            for one in both:
                await one.begin(names)
            for number in range(ROUNDS):
                for one in both:
                    await one.burst(names, 2 + number)
            for number in range(samples):
                for one in both:
                    await one.change(names[number % objects], 2 + ROUNDS + number // objects)
            found = [one.figures(objects) for one in both]
            for one in both:
                await one.end(names)
    metrics = (("changes", "1/s", objects), ("p50", "ms", samples), ("p99", "ms", samples), ("rss_1000", "MB", 1))
    return [
        Row(name="operator", metric=metric, unit=unit, value=ours, n=n, peer="kopf", peer_value=theirs)
        for (metric, unit, n), ours, theirs in zip(metrics, *found, strict=True)
    ]
