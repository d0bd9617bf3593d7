"""More clusters beside the management cluster, each reachable through a kubeconfig in a Secret there.

``cluster-1``, ``cluster-2`` and so on have a control plane of their own: API server, controllers, scheduler, simulated
node, certificate authority, service account key and issuer, tokens. They share the etcd process of the management
cluster, each under its own prefix, unless one is asked to have its own, which can then be emptied. They get none of
Windlass' own definitions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.devstack import control, control_plane, credentials
from windlass.devstack.control_plane import APPLY, SIMULATED, ControlPlane
from windlass.devstack.errors import StackError
from windlass.devstack.part import Part
from windlass.devstack.plan import Plan
from windlass.devstack.state import StackState

KEY: Final = "kubeconfig"
"""Key of a cluster's Secret that holds its kubeconfig."""

_DEFAULT_NAMESPACE: Final = "default"


def planes(plan: Plan) -> list[ControlPlane]:
    """Return the control planes beside that of the management cluster."""
    return [ControlPlane(name, own_etcd=name in plan.own_etcd) for name in plan.clusters]


def names(count: int) -> list[str]:
    """Return the names of ``count`` clusters."""
    return [f"cluster-{number}" for number in range(1, count + 1)]


def ports(clusters: list[str], own_etcd: list[str]) -> list[str]:
    """Return the names of the ports that ``clusters`` need."""
    parts = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
    served = [f"{name}-{part}" for name in clusters for part in parts]
    return served + [f"{name}-{part}" for name in own_etcd for part in ("etcd", "etcd-peer")]


def write(plan: Plan) -> None:
    """Write the keys and kubeconfigs of the clusters, and the Secrets that are to hold them."""
    for plane in planes(plan):
        folder = plane.folder(plan)
        pki = credentials.ensure(folder / "pki")
        kubeconfig = folder / "kubeconfig"
        credentials.write_kubeconfigs(pki, plane.url(plan), kubeconfig)
        manifest = _manifest(plane.name, plan.clusters_namespace, kubeconfig.read_text())
        credentials.write_secret(_manifest_file(plan, plane), json.dumps(manifest).encode())


def parts(plan: Plan) -> list[Part]:
    """Return the parts of all clusters in the order in which they come up."""
    found: list[Part] = []
    for plane in planes(plan):
        found += control_plane.of(plan, plane)
        api = plane.part("kube-apiserver")
        here = (plan.tools["kubectl"], f"--kubeconfig={plane.folder(plan) / 'kubeconfig'}")
        there = (plan.tools["kubectl"], f"--kubeconfig={plan.kubeconfig}")
        simulated = (*here, *APPLY, *(f"--filename={file}" for file in sorted(SIMULATED.glob("*.yaml"))))
        secret = (*there, *APPLY, f"--filename={_manifest_file(plan, plane)}")
        found += [
            Part(plane.part("objects"), "kubectl", simulated, needs=(api,), once=True),
            Part(plane.part("secret"), "kubectl", secret, needs=("kube-apiserver", api), once=True),
        ]
    return found


def resting(plan: Plan, parts: Iterable[str]) -> list[str]:
    """Return which of ``parts`` wait for `Cluster.start` when the stack comes up."""
    return [part for part in parts if plan.on_demand and any(_belongs(part, name) for name in plan.clusters)]


def _belongs(part: str, cluster: str) -> bool:
    return part.startswith(f"{cluster}-")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One of the clusters of a running stack.

    Attributes:
        data_dir: of the stack.
        name: ``cluster-1`` and so on; that of its Secret too.
    """

    data_dir: Path
    name: str

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator of the cluster; what the Secret holds."""
        return Plan.load(self.data_dir / "plan.json").cluster_folder(self.name) / "kubeconfig"

    def start(self) -> None:
        """Start everything of the cluster that does not run and return once it is ready.

        Raises:
            StackError: it is not ready in time, or no stack runs.
        """
        control.start(self.data_dir, self._parts())

    def stop_api(self) -> None:
        """Stop the API server and return once it has ended; everything else of the cluster runs on.

        Raises:
            StackError: it does not end in time, or no stack runs.
        """
        control.stop(self.data_dir, [f"{self.name}-kube-apiserver"])

    def start_api(self) -> None:
        """Start the API server again and return once it is ready.

        Raises:
            StackError: it is not ready in time, or no stack runs.
        """
        control.start(self.data_dir, [f"{self.name}-kube-apiserver"])

    def empty(self) -> None:
        """Stop the cluster, forget all that it holds, start it again; keys, tokens and addresses stay.

        Raises:
            StackError: the cluster has no etcd of its own, or is not ready in time, or no stack runs.
        """
        plan = Plan.load(self.data_dir / "plan.json")
        if self.name not in plan.own_etcd:
            message = f"{self.name} shares its etcd with other clusters"
            raise StackError(message, hint="start the stack with an etcd of its own for it (StackOptions.own_etcd)")
        control.stop(self.data_dir, self._parts())
        shutil.rmtree(plan.cluster_folder(self.name) / "etcd")
        control.start(self.data_dir, self._parts())

    def _parts(self) -> list[str]:
        state = StackState.load(self.data_dir)
        return [part for part in (state.parts if state else {}) if _belongs(part, self.name)]


def _manifest(name: str, namespace: str, kubeconfig: str) -> dict[str, object]:
    secret: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {KEY: kubeconfig},
    }
    made: dict[str, object] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    items = [secret] if namespace == _DEFAULT_NAMESPACE else [made, secret]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _manifest_file(plan: Plan, plane: ControlPlane) -> Path:
    return plane.folder(plan) / "secret.json"
