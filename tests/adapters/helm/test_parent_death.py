"""Nothing that Helm does outlives the process it does it for, and the next process goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from adapters.helm import doomed
from adapters.helm.scenes import Charts, Cluster, Requests, children, config_map, running

from support.faults import Hold, HoldingProxy
from support.ledgers import RememberingHelm
from support.waiting import eventually
from windlass.domain.lifecycle.provenance import Known

pytestmark = pytest.mark.stack

HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: waits
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    metadata: {annotations: {windlass.dev/stage: stuck}}
    spec: {restartPolicy: Never, containers: [{name: waits, image: busybox}]}
"""


@pytest.mark.parametrize("has_hooks", [False, True])
async def test_kill_9_takes_helm_along(
    helm: RememberingHelm,
    cluster: Cluster,
    chart: Charts,
    request_for: Requests,
    proxy: HoldingProxy,
    tmp_path: Path,
    has_hooks: bool,
) -> None:
    folder = chart(config_map("a-first"), *([HOOK] if has_hooks else []))
    # The hook's job never ends; without one, the release's only object is not let through.
    hold = proxy.hold(Hold(at="(POST|PATCH) .*/configmaps/a-first$"))
    order = {
        "kubeconfig": str(proxy.kubeconfig(tmp_path)),
        "helm": str(cluster.stack.tool("helm")),
        "scratch": str(tmp_path / "scratch"),
        "namespace": cluster.namespace,
        "name": cluster.release,
        "chart": str(folder),
        "has_hooks": has_hooks,
    }
    (tmp_path / "order.json").write_text(json.dumps(order))
    process = subprocess.Popen([sys.executable, doomed.__file__, str(tmp_path / "order.json")])  # noqa: ASYNC220 - it is to die, not to be awaited

    async def caught() -> bool:
        assert process.poll() is None
        return await cluster.status() == "pending-install" and (has_hooks or hold.holding > 0)

    await eventually(caught, what="the release is being installed")
    spawned = children(process.pid)
    assert len(spawned) == (3 if has_hooks else 2)  # two warm children, and the program
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    await eventually(lambda: not any(running(pid) for pid in spawned))
    assert await cluster.status() == "pending-install"

    request = request_for(chart(config_map("a-first"), name="next"), value="1")
    helm.ledger(request.ref).known = Known(noted=1)  # the dead process had got as far as that
    outcome = await helm.upgrade(request)

    assert (outcome.action, outcome.release.status, outcome.release.revision) == ("installed", "deployed", 1)
    assert outcome.healed == "revision 1 was interrupted: made again"
