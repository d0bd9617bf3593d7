"""One Kubernetes control plane: API server, controllers, scheduler, a simulated node, and etcd unless it shares one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.devstack import credentials
from windlass.devstack.credentials import Credentials
from windlass.devstack.part import Part
from windlass.devstack.plan import Plan
from windlass.devstack.ports import LOOPBACK
from windlass.devstack.probe import Probe

SERVICE_RANGE: Final = "10.96.0.0/16"
NODE: Final = "windlass-node"
SIMULATED: Final = Path(__file__).parent / "objects" / "simulated"
"""Folder of the node and the storage class that a simulated cluster needs."""

APPLY: Final = ("apply", "--server-side", "--force-conflicts", "--field-manager=windlass-stack")
"""Command of kubectl that makes or updates objects."""

_STAGES: Final = Path(__file__).parent / "stages"
_MANAGEMENT_ISSUER: Final = "https://kubernetes.default.svc"

# Our own clients are many and fast; the defaults (20 and 30 a second) would be what a test measures.
_CLIENT_RATE: Final = ("--kube-api-qps=200", "--kube-api-burst=400")


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Which control plane of a stack.

    Attributes:
        name: of the cluster; empty for the management cluster.
        own_etcd: whether it has an etcd process of its own. Otherwise it uses that of the management cluster under a
            prefix of its own.
    """

    name: str = ""
    own_etcd: bool = True

    def part(self, tool: str) -> str:
        """Return the name of one of its parts, which is the name of its port too."""
        return f"{self.name}-{tool}" if self.name else tool

    @property
    def etcd(self) -> str:
        """Name of the etcd part that it uses."""
        return self.part("etcd") if self.own_etcd else "etcd"

    @property
    def issuer(self) -> str:
        """Issuer of its service account tokens; differs, so that no cluster takes the tokens of another."""
        return f"https://{self.name}.windlass.internal" if self.name else _MANAGEMENT_ISSUER

    @property
    def key_prefix(self) -> str:
        """Where its keys begin in etcd; the management cluster has the default of the API server."""
        return f"/{self.name}" if self.name else "/registry"

    def folder(self, plan: Plan) -> Path:
        """Return the folder of its keys and data."""
        return plan.cluster_folder(self.name) if self.name else plan.folder

    def pki(self, plan: Plan) -> Credentials:
        """Return its keys, certificates and tokens."""
        return Credentials(self.folder(plan) / "pki")

    def url(self, plan: Plan) -> str:
        """Return the URL of its API server."""
        return f"https://{LOOPBACK}:{plan.ports[self.part('kube-apiserver')]}"


def of(plan: Plan, plane: ControlPlane) -> list[Part]:
    """Return the parts of ``plane`` in the order in which they come up."""
    etcd = [_etcd(plan, plane)] if plane.own_etcd else []
    return [
        *etcd,
        _apiserver(plan, plane),
        _controller_manager(plan, plane),
        _controller(plan, plane, "kube-scheduler", credentials.SCHEDULER),
        _kwok(plan, plane),
    ]


def _etcd(plan: Plan, plane: ControlPlane) -> Part:
    client = f"http://{LOOPBACK}:{plan.ports[plane.etcd]}"
    peer = f"http://{LOOPBACK}:{plan.ports[plane.part('etcd-peer')]}"
    return Part(
        name=plane.etcd,
        tool="etcd",
        argv=(
            plan.tools["etcd"],
            *("--data-dir", str(plane.folder(plan) / "etcd")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            # The page cache outlives a killed process; only a machine crash can cost data.
            "--unsafe-no-fsync",
            *("--log-level", "warn"),
        ),
        address=client,
        ready=(Probe(f"{client}/health", contains=('"health":"true"',)),),
        health=Probe(f"{client}/health"),
    )


def _apiserver(plan: Plan, plane: ControlPlane) -> Part:
    pki, name = plane.pki(plan), plane.part("kube-apiserver")
    return Part(
        name=name,
        tool="kube-apiserver",
        argv=(
            plan.tools["kube-apiserver"],
            f"--etcd-servers=http://{LOOPBACK}:{plan.ports[plane.etcd]}",
            f"--etcd-prefix={plane.key_prefix}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={plan.ports[name]}",
            *_serving(pki),
            f"--service-account-key-file={pki.service_account_public_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            f"--service-account-issuer={plane.issuer}",
            f"--token-auth-file={pki.tokens}",
            f"--client-ca-file={pki.client_ca}",
            "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--allow-privileged=true",
            # The loopback address may not stand in an Endpoints object.
            "--endpoint-reconciler-type=none",
        ),
        needs=(plane.etcd,),
        address=plane.url(plan),
        ready=(_https(plan, plane, "kube-apiserver", "/readyz"),),
        health=_https(plan, plane, "kube-apiserver", "/livez"),
    )


def _controller_manager(plan: Plan, plane: ControlPlane) -> Part:
    pki = plane.pki(plan)
    return _controller(
        plan,
        plane,
        "kube-controller-manager",
        credentials.CONTROLLER_MANAGER,
        f"--service-account-private-key-file={pki.service_account_key}",
        f"--root-ca-file={pki.ca}",
        "--use-service-account-credentials=true",
        # Pods are admitted once their namespace has its service account.
        ready=(_https(plan, plane, "kube-apiserver", "/api/v1/namespaces/default/serviceaccounts/default"),),
    )


def _controller(
    plan: Plan, plane: ControlPlane, tool: str, user: str, *flags: str, ready: tuple[Probe, ...] = ()
) -> Part:
    pki, name = plane.pki(plan), plane.part(tool)
    kubeconfig = pki.kubeconfig(user)
    health = _https(plan, plane, tool, "/healthz")
    argv = (
        plan.tools[tool],
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={plan.ports[name]}",
        *_serving(pki),
        *_CLIENT_RATE,
        *flags,
    )
    address = f"https://{LOOPBACK}:{plan.ports[name]}"
    needs = (plane.part("kube-apiserver"),)
    return Part(name, tool, argv, needs=needs, address=address, ready=(health, *ready), health=health)


def _kwok(plan: Plan, plane: ControlPlane) -> Part:
    name = plane.part("kwok")
    address = f"{LOOPBACK}:{plan.ports[name]}"
    return Part(
        name=name,
        tool="kwok",
        argv=(
            plan.tools["kwok"],
            f"--kubeconfig={plane.pki(plan).kubeconfig(credentials.NODES)}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            *(f"--config={stage}" for stage in sorted(_STAGES.glob("*.yaml"))),
            f"--server-address={address}",
        ),
        needs=(plane.part("kube-apiserver"), plane.part("objects")),
        address=f"http://{address}",
        ready=(
            Probe(f"http://{address}/healthz"),
            _https(plan, plane, "kube-apiserver", f"/api/v1/nodes/{NODE}", ('"reason":"KubeletReady"',)),
        ),
        health=Probe(f"http://{address}/healthz"),
    )


def _serving(pki: Credentials) -> tuple[str, str]:
    return (f"--tls-cert-file={pki.serving_certificate}", f"--tls-private-key-file={pki.serving_key}")


def _https(plan: Plan, plane: ControlPlane, tool: str, path: str, contains: tuple[str, ...] = ()) -> Probe:
    pki = plane.pki(plan)
    url = f"https://{LOOPBACK}:{plan.ports[plane.part(tool)]}{path}"
    return Probe(url, pki.token(credentials.ADMIN), str(pki.ca), contains)
