"""What the identity of a release may not do is named as a whole, whichever of it the API server refused first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from adapters.helm.scenes import Charts, Cluster, Requests, config_map

from support import rights
from support.ledgers import RememberingHelm
from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.targets.caller import CallerTargets
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason

CLUSTER_ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}-role"}
rules: []
"""
ELSEWHERE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: stray, namespace: default}
"""
HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-install}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example.invalid/none}]
"""


@pytest.fixture
async def limited(stack: Stack, kube: KubeClient, namespace: str, tmp_path: Path) -> AsyncIterator[RememberingHelm]:
    """A client as an account that may do everything to ConfigMaps and Secrets of its namespace."""
    rule = {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"]}
    await kube.create(rights.plain("Role", namespace, "limited", api_version=rights.RBAC, rules=[rule]))
    binding = rights.binding(namespace, "limited", "windlass-application", name="limited")
    binding["roleRef"]["kind"] = "Role"
    await kube.create(binding)
    async with rights.acting(kube, namespace, "windlass-application") as client:
        await eventually(lambda: rights.allowed(client, "create", "secrets", namespace))
        config = yaml.safe_load(stack.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": client.access.token}
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        targets = CallerTargets(client, file)
        program = Path(stack.tool("helm"))
        async with RememberingHelm(targets=targets, helm=program, scratch=tmp_path / "helm", pool_size=1) as helm:
            yield helm


async def test_rendering_names_all_that_is_forbidden(
    limited: RememberingHelm, chart: Charts, request_for: Requests, namespace: str
) -> None:
    request = request_for(chart(config_map("a"), CLUSTER_ROLE, ELSEWHERE, HOOK), has_hooks=True)
    with pytest.raises(PermanentError) as caught:
        await limited.render(request)
    error = caught.value
    assert error.reason is Reason.FORBIDDEN
    assert error.message.startswith(f"rendering of release web in {namespace} failed: ")
    assert "may not install 3 objects" in error.message
    for part in (f"ClusterRole/{namespace}-role (", "ConfigMap/stray in namespace default (", "Job/hook in namespace"):
        assert part in error.message


async def test_an_upgrade_that_is_refused_names_all_and_leaves_the_release(
    limited: RememberingHelm, cluster: Cluster, chart: Charts, request_for: Requests, namespace: str
) -> None:
    await limited.upgrade(request_for(chart(config_map("a"))))
    with pytest.raises(PermanentError) as caught:
        await limited.upgrade(request_for(chart(config_map("a"), config_map("b"), CLUSTER_ROLE, ELSEWHERE), "second"))
    assert caught.value.message.startswith(f"Helm upgrade of release web in {namespace} failed: ")
    assert "may not install 2 objects" in caught.value.message
    assert await cluster.config_map("a") is not None
    assert await cluster.config_map("b") is None


async def test_a_refusal_for_another_cause_stays_as_it_is(
    limited: RememberingHelm, kube: KubeClient, chart: Charts, request_for: Requests, namespace: str
) -> None:
    await kube.create(rights.plain("ResourceQuota", namespace, "none", spec={"hard": {"count/configmaps": "0"}}))

    async def refused() -> PermanentError | None:
        try:
            await limited.upgrade(request_for(chart(config_map("a"))))
        except PermanentError as error:
            return error
        return None

    error = await eventually(refused)
    assert error is not None
    assert error.reason is Reason.FORBIDDEN
    assert "may not install" not in error.message
    assert "quota" in error.message
