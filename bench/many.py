"""What many packages cost at rest, and how fast an event reaches one that the worker does not keep in memory.

The workflow cache is smaller than the number of packages, as it is in every large installation. Packages with a hook
are installed first, so the others push them out of the cache.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rows import Row
from usage import memory, used

from support.installation import CONFIG_MAP, GREETING, Installation, installed, write_greeter, write_package
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.worker.monitoring import free_loopback_port

WAIT: Final = 1800.0
SETTLE_SECONDS: Final = 30.0
"""Until what follows an installation (status, events, comparisons with the manifests) is over."""

LISTENERS: Final = 30
"""Packages with a hook; each hears of one event, since that brings it back into the cache."""


async def measure(stack: Stack, folder: Path, *, packages: int, first: int, cache: int, seconds: float) -> list[Row]:
    """Install ``first`` packages, then the rest; measure memory after each, then CPU at rest and events.

    Args:
        stack: that everything runs on.
        folder: for this run.
        packages: in the end.
        first: packages at the first look at memory; the slope is taken from there.
        cache: lifecycles that the worker keeps in memory.
        seconds: for which CPU at rest is measured.
    """
    metrics = free_loopback_port()
    settings = {"WINDLASS_WORKFLOW_CACHE": str(cache), "WINDLASS_METRICS_ADDRESS": f"127.0.0.1:{metrics}"}
    async with installed(stack, folder, **settings) as installation:
        write_greeter(folder / "packages", "1.0.0")
        listeners = [_Listener(folder, f"listens-{number}") for number in range(LISTENERS)]
        await installation.repository(folder / "packages")
        process = installation.start()
        await _install(installation, {one.name: one.name for one in listeners})
        names = [f"app-{number}" for number in range(packages - LISTENERS)]
        await _install(installation, dict.fromkeys(names[: first - LISTENERS], "greeter"))
        await asyncio.sleep(SETTLE_SECONDS)
        small = memory((process.pid,))
        began = time.monotonic()
        await _install(installation, dict.fromkeys(names[first - LISTENERS :], "greeter"))
        wall = time.monotonic() - began
        await asyncio.sleep(SETTLE_SECONDS)
        large = memory((process.pid,))
        temporal = stack.state.parts["temporal"].pid
        polls = _requests(metrics)
        async with used(temporal) as theirs, used(process.pid) as ours:
            await asyncio.sleep(seconds)
        polls = _requests(metrics) - polls
        misses = _counter(metrics, "temporal_sticky_cache_miss_total")
        found = [await one.latency(installation) for one in listeners]
        misses = _counter(metrics, "temporal_sticky_cache_miss_total") - misses
    name, n = f"idle_{packages}", packages
    slope = (large - small) / (packages - first)
    return [
        Row(name=name, metric="install, each", unit="ms", value=1000 * wall / (packages - first), n=packages - first),
        Row(name=name, metric=f"pss at {first}", unit="MB", value=small, n=first),
        Row(name=name, metric=f"pss at {packages}", unit="MB", value=large, n=n),
        Row(name=name, metric="pss, each", unit="MB", value=slope, n=packages - first),
        Row(name=name, metric="worker cpu", unit="% core", value=100 * ours.cpu / seconds, n=n),
        Row(name=name, metric="temporal cpu", unit="% core", value=100 * theirs.cpu / seconds, n=n),
        Row(name=name, metric="temporal requests", unit="1/s", value=polls / seconds, n=n),
        Row(name=name, metric="uncached event, p50", unit="ms", value=statistics.median(found), n=len(found)),
        Row(name=name, metric="uncached event, worst", unit="ms", value=max(found), n=len(found)),
        Row(name=name, metric="cache misses", unit="count", value=misses, n=len(found)),
    ]


async def _install(installation: Installation, packages: Mapping[str, str]) -> None:
    """Install packages, given by the names of their objects, and wait until all are ready."""
    await asyncio.gather(*(installation.application(name, package, "1.0.0") for name, package in packages.items()))
    for name in packages:
        await installation.ready(name, "1.0.0", within=WAIT)


class _Listener:
    """A package with a hook that follows ConfigMaps with a label of its own, and notes when it was started."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._notes = folder / f"notes-{name}"
        binding: dict[str, Any] = {
            "name": "watched",
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "labelSelector": {"matchLabels": {"app": name}},
            "executeHookOnSynchronization": False,
        }
        config = json.dumps({"configVersion": "v1", "kubernetes": [binding]})
        hook = (
            f"#!/bin/bash\nif [ \"$1\" = --config ]; then echo '{config}'; exit 0; fi\n"
            f'echo "$EPOCHREALTIME" >> {self._notes}\n'
        )
        write_package(
            folder / "packages",
            name,
            "1.0.0",
            templates={"config.yaml": CONFIG_MAP},
            settings=GREETING,
            hooks={"listen.sh": hook},
        )

    async def latency(self, installation: Installation) -> float:
        """Write one object; return the milliseconds from the request to the start of the hook's process."""
        metadata = {"name": f"for-{self.name}", "namespace": installation.namespace, "labels": {"app": self.name}}
        sent = time.time()
        await installation.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
        await eventually(self._notes.exists, 60.0, every=0.002, what=f"a run of the hook of {self.name}")
        noted = await eventually(self._notes.read_text, 60.0, every=0.002, what=f"the note of {self.name}")
        return 1000 * (float(noted.split()[0]) - sent)


def _requests(port: int) -> float:
    """Return how many requests, long polls included, the SDK has sent to Temporal."""
    return _counter(port, "temporal_request_total") + _counter(port, "temporal_long_request_total")


def _counter(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}\{{.*\}} (\S+)$", text, re.MULTILINE))
