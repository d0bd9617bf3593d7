"""Clusters beside the management cluster: a stack of three, one of them with an etcd of its own."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import get, kubectl, run
from support.waiting import eventually_sync
from windlass.devstack import clusters, control, control_plane
from windlass.devstack.clusters import Cluster
from windlass.devstack.errors import StackError
from windlass.devstack.stack import Stack, StackOptions
from windlass.devstack.state import PartPhase

OWN = 2  # has an etcd of its own


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    options = StackOptions(clusters=2, own_etcd=(OWN,), clusters_namespace="fleet")
    with Stack.start(tmp_path_factory.mktemp("fleet"), options=options, report=print) as running:
        yield running


def on(stack: Stack, cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl against one of the clusters."""
    command = [stack.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "--request-timeout=20s", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def answer(stack: Stack, cluster: Cluster, *arguments: str) -> str:
    done = on(stack, cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def claims(token: str) -> dict[str, Any]:
    """Return what a service account token says of itself."""
    middle = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))


def test_the_management_cluster_holds_a_kubeconfig_of_each(fleet: Stack) -> None:
    for cluster in fleet.clusters:
        secret = get(fleet, "secret", cluster.name, "--namespace=fleet")
        text = base64.b64decode(secret["data"][clusters.KEY]).decode()
        assert text == cluster.kubeconfig.read_text()
        [entry], [user] = yaml.safe_load(text)["clusters"], yaml.safe_load(text)["users"]
        assert entry["cluster"].keys() == {"server", "certificate-authority-data"}
        assert user["user"].keys() == {"token"}
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600


def test_each_cluster_runs_pods_and_knows_nothing_of_windlass(fleet: Stack) -> None:
    for cluster in fleet.clusters:
        answer(fleet, cluster, "create", "deployment", "greeter", "--image=greeter")
        answer(fleet, cluster, "wait", "deployment/greeter", "--for=condition=Available", "--timeout=60s")
        assert "windlass.dev" not in answer(fleet, cluster, "get", "crds", "--output=name")
        assert "windlass-system" not in answer(fleet, cluster, "get", "namespaces", "--output=name")


def test_no_cluster_sees_or_believes_another(fleet: Stack) -> None:
    one, two = fleet.clusters
    answer(fleet, one, "create", "configmap", "mine")
    assert on(fleet, two, "get", "configmap", "mine").returncode != 0
    assert "mine" not in kubectl(fleet, "get", "configmaps", "--output=name")
    tokens = [
        answer(fleet, one, "create", "token", "default"),
        answer(fleet, two, "create", "token", "default"),
        kubectl(fleet, "create", "token", "default"),
    ]
    assert len({claims(token)["iss"] for token in tokens}) == 3
    files = (fleet.kubeconfig, one.kubeconfig, two.kubeconfig)
    [found] = zip(*(yaml.safe_load(file.read_text())["clusters"] for file in files), strict=True)
    assert len({entry["cluster"]["certificate-authority-data"] for entry in found}) == 3


def test_one_api_server_stops_and_comes_back_and_the_others_serve_on(fleet: Stack) -> None:
    one, two = fleet.clusters
    answer(fleet, one, "create", "configmap", "kept")
    one.stop_api()
    try:
        assert fleet.state.parts["cluster-1-kube-apiserver"].phase is PartPhase.STOPPED
        assert on(fleet, one, "get", "--raw", "/readyz").returncode != 0
        answer(fleet, two, "get", "--raw", "/readyz")
        kubectl(fleet, "get", "--raw", "/readyz")
        shown = run("status", data_dir=fleet.data_dir)
        assert shown.returncode == 1
        assert "cluster-1-kube-apiserver" in shown.stdout
        findings = json.loads(run("doctor", "-o", "json", data_dir=fleet.data_dir).stdout)
        found = {finding["subject"]: finding["found"] for finding in findings}
        assert found["cluster-1-kube-apiserver"] == "stopped on request"
        assert found["cluster-2"] == f"kubeconfig {two.kubeconfig}"
    finally:
        one.start_api()
    answer(fleet, one, "get", "configmap", "kept")
    ready = {PartPhase.READY, PartPhase.DONE}
    eventually_sync(lambda: all(part.phase in ready for part in fleet.state.parts.values()), what="all is ready again")


def test_a_cluster_with_its_own_etcd_comes_back_empty_under_the_same_kubeconfig(fleet: Stack) -> None:
    one, two = fleet.clusters
    before = two.kubeconfig.read_text()
    answer(fleet, two, "create", "configmap", "forgotten")
    two.empty()
    assert two.kubeconfig.read_text() == before
    assert on(fleet, two, "get", "configmap", "forgotten").returncode != 0
    assert control_plane.NODE in answer(fleet, two, "get", "nodes", "--output=name")
    answer(fleet, one, "get", "--raw", "/readyz")


def test_a_cluster_that_shares_its_etcd_cannot_be_emptied(fleet: Stack) -> None:
    with pytest.raises(StackError, match="shares its etcd"):
        fleet.cluster(1).empty()


def test_there_is_no_other_cluster_and_no_other_part(fleet: Stack) -> None:
    for number in (0, 3):
        with pytest.raises(StackError, match="2 clusters"):
            fleet.cluster(number)
    with pytest.raises(StackError, match="no part cluster-9-kwok"):
        control.stop(fleet.data_dir, ["cluster-9-kwok"])


def test_a_log_of_each_part_is_shown(fleet: Stack) -> None:
    shown = run("logs", "cluster-1-kube-apiserver", data_dir=fleet.data_dir)
    assert shown.returncode == 0
    assert shown.stdout


def test_clusters_need_the_embedded_one(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").touch()
    with pytest.raises(StackError, match="embedded management cluster"):
        Stack.start(tmp_path, options=StackOptions(clusters=1, kubeconfig=tmp_path / "kubeconfig"))
