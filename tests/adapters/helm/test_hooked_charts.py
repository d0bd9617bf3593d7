"""Charts that carry Helm hooks: they go through the helm program, because hooks wait inside Helm."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from adapters.helm.scenes import OWNER, SECOND, Charts, Cluster, Requests, children, config_map, running

from support.ledgers import RememberingHelm
from support.waiting import SOON, eventually
from windlass.domain.errors import Reason, TransientError
from windlass.ports.helm import ReleaseRef

pytestmark = pytest.mark.stack


def hook_job(name: str, moment: str, stage: str = "") -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{helm.sh/hook: {moment}}}
spec:
  template:
    metadata: {{annotations: {{windlass.dev/stage: "{stage}"}}}}
    spec: {{restartPolicy: Never, containers: [{{name: it, image: busybox}}]}}
"""


async def test_hooks_run_at_their_moments(
    helm: RememberingHelm, cluster: Cluster, ref: ReleaseRef, chart: Charts, request_for: Requests
) -> None:
    hooks = [
        config_map(f"on-{moment}", annotations=f"helm.sh/hook: {moment}")
        for moment in ("pre-install", "pre-upgrade", "post-delete")
    ]
    folder = chart(config_map("a"), hook_job("checks", "post-install"), *hooks)

    installed = await helm.upgrade(request_for(folder, has_hooks=True, value="grün"))

    assert installed.objects == (cluster.ref("a"),)
    assert await cluster.config_map("on-pre-install") is not None
    assert await cluster.config_map("on-pre-upgrade") is None

    assert (await helm.upgrade(request_for(folder, has_hooks=True, value="grün"))).action == "unchanged"
    assert (await helm.upgrade(request_for(folder, SECOND, has_hooks=True, value="2"))).action == "upgraded"
    stored = await cluster.config_map("on-pre-upgrade")
    assert stored is not None
    assert stored["data"] == {"value": "2"}

    assert await helm.uninstall(ref, owner=OWNER) == (cluster.ref("a"),)
    assert await cluster.config_map("on-post-delete") is not None


async def test_cancelling_kills_the_program_while_a_hook_waits(
    helm: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests
) -> None:
    stuck = request_for(chart(hook_job("waits", "pre-install", "stuck"), name="stuck"), has_hooks=True)
    before = set(children(os.getpid()))
    task = asyncio.create_task(helm.upgrade(stuck))

    async def waiting() -> bool:
        jobs = await cluster.kube.list("batch/v1", "Job", namespace=cluster.namespace)
        return bool(jobs.items) and await cluster.status() == "pending-install"

    await eventually(waiting)
    (program,) = set(children(os.getpid())) - before
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - started < SOON
    assert not running(program)
    plain = chart(config_map("a"), config_map("b", annotations="helm.sh/hook: pre-install"), name="plain")
    outcome = await helm.upgrade(request_for(plain, has_hooks=True, value="1"))
    assert (outcome.action, outcome.release.revision) == ("installed", 2)
    assert await cluster.config_map("b") is not None


async def test_a_hook_that_takes_too_long_is_named(helm: RememberingHelm, chart: Charts, request_for: Requests) -> None:
    stuck = request_for(chart(hook_job("waits", "pre-install", "stuck")), has_hooks=True, timeout=1)

    with pytest.raises(TransientError) as caught:
        await helm.upgrade(stuck)

    assert caught.value.reason is Reason.APPLY_MANIFESTS_FAILED
    assert "Job/" in caught.value.message
    assert "waits" in caught.value.message
