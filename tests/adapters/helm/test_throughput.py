"""Many releases at once: all right, and the figures printed."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest
from adapters.helm.scenes import SECOND, Charts, Cluster, Requests, children, config_map

from support.ledgers import RememberingHelm
from windlass.ports.helm import ReleaseOutcome, ReleaseRequest

pytestmark = pytest.mark.stack

OBJECTS = """
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec: {selector: {app: "{{ .Release.Name }}"}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: 0
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: web, image: "web:1"}]}
"""


def cpu_seconds(pids: list[int]) -> float:
    """CPU time of this process and of others, in seconds."""
    ticks = 0
    for pid in [os.getpid(), *pids]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def test_twenty_releases_at_once(helm: RememberingHelm, chart: Charts, request_for: Requests) -> None:
    folder = chart(config_map("{{ .Release.Name }}"), OBJECTS)
    first = [
        replace(request, ref=replace(request.ref, name=f"web-{number}"))
        for number, request in enumerate([request_for(folder, value="1")] * 20)
    ]
    second = [replace(request, values={"value": "2"}, digest=SECOND) for request in first]
    helpers = children(os.getpid())

    async def all_at_once(what: str, requests: list[ReleaseRequest]) -> list[ReleaseOutcome]:
        took: list[float] = []

        async def one(request: ReleaseRequest) -> ReleaseOutcome:
            began = time.perf_counter()
            outcome = await helm.upgrade(request)
            took.append(time.perf_counter() - began)
            return outcome

        cpu, began = cpu_seconds(helpers), time.perf_counter()
        outcomes = await asyncio.gather(*(one(request) for request in requests))
        wall = time.perf_counter() - began
        print(  # noqa: T201 - the figures are what this test is read for
            f"\n20 x {what}: {wall:.2f} s, p50 {statistics.median(took) * 1000:.0f} ms with waiting, "
            f"{wall / len(requests) * 1000:.0f} ms each, {cpu_seconds(helpers) - cpu:.2f} CPU s"
        )
        return outcomes

    installed = await all_at_once("install", first)
    upgraded = await all_at_once("upgrade", second)
    unchanged = await all_at_once("unchanged", second)

    assert {outcome.action for outcome in installed} == {"installed"}
    assert {len(outcome.objects) for outcome in installed} == {3}
    assert {outcome.action for outcome in upgraded} == {"upgraded"}
    assert {outcome.action for outcome in unchanged} == {"unchanged"}
    assert {outcome.release.revision for outcome in unchanged} == {2}


async def test_two_calls_for_one_release_never_meet(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    request = request_for(chart(config_map("a")), value="1")

    outcomes = await asyncio.gather(*(helm.upgrade(request) for _ in range(5)))

    assert sorted(outcome.action for outcome in outcomes) == ["installed", *["unchanged"] * 4]
    assert await cluster.revisions() == [(1, "deployed")]
