"""The parts of a stack: command line, address, what each needs, and how one knows that it is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from windlass.devstack import credentials, nats, paths
from windlass.devstack.credentials import Credentials
from windlass.devstack.plan import Plan
from windlass.devstack.ports import LOOPBACK
from windlass.devstack.probe import Probe
from windlass.temporal.codec_token import token_at
from windlass.temporal.keyring import ENVIRONMENT_FILE, ENVIRONMENT_TEXT

SERVICE_RANGE: Final = "10.96.0.0/16"
NODE: Final = "windlass-node"
_HERE: Final = Path(__file__).parent

# Our own clients are many and fast; the defaults (20 and 30 a second) would be what a test measures.
_CLIENT_RATE: Final = ("--kube-api-qps=200", "--kube-api-burst=400")

_TEMPORAL_PRAGMAS: Final = ("journal_mode=wal", "synchronous=normal")  # 2.8 -> 25 to 35 workflows/s
TEMPORAL_DYNAMIC: Final = (
    "system.enableActivityEagerExecution=true",
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)  # signal to activity start: p50 85 -> 35 ms


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the stack.

    Attributes:
        name: shown to people, names the log.
        tool: the program, see `windlass.devstack.catalog`; or `windlass` itself.
        argv: command line.
        env: variables that are added to its environment.
        needs: parts that must be ready before this one is started.
        address: where it serves; empty when it does not.
        ready: all of these hold once it does its work.
        health: holds as long as it lives well.
        once: whether it is a task that ends, rather than a server.
    """

    name: str
    tool: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: tuple[str, ...] = ()
    address: str = ""
    ready: tuple[Probe, ...] = ()
    health: Probe | None = None
    once: bool = False


def of(plan: Plan) -> list[Part]:
    """Return the parts of a stack in the order in which they come up."""
    parts: list[Part] = []
    if not plan.external_temporal:
        parts += [_temporal(plan), _codec(plan)]
    if not plan.external_kubeconfig:
        parts += _control_plane(plan, Credentials(plan.folder / "pki"))
    if plan.registry_address:
        parts.append(_registry(plan))
    if plan.nats_url:
        parts.append(_nats(plan, Credentials(plan.folder / "pki")))
    return parts + _objects(plan)


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a part: ``inherited`` without what would change what the command line says."""
    return {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("ETCD_", "TEMPORAL_", "KWOK_", "REGISTRY_", "NATS_")) and name != "KUBECONFIG"
    }


def _temporal(plan: Plan) -> Part:
    ports = plan.ports
    http = f"http://{LOOPBACK}:{ports['temporal-http']}"
    argv = [
        plan.tools["temporal"],
        *("server", "start-dev", "--disable-config-file", "--disable-config-env"),
        *("--ip", LOOPBACK, "--port", str(ports["temporal"]), "--http-port", str(ports["temporal-http"])),
        *("--ui-port", str(ports["temporal-ui"]), "--metrics-port", str(ports["temporal-metrics"])),
        *("--db-filename", str(plan.folder / "temporal.db"), "--namespace", "default"),
        *("--log-level", "warn", "--log-format", "json"),
    ]
    for pragma in _TEMPORAL_PRAGMAS:
        argv += ["--sqlite-pragma", pragma]
    for setting in TEMPORAL_DYNAMIC:
        argv += ["--dynamic-config-value", setting]
    for name, kind in plan.search_attributes.items():
        argv += ["--search-attribute", f"{name}={kind}"]
    # The UI has no login and therefore no token of its own to send: docs/adr/0002-payload-codec.md.
    argv += ["--ui-codec-endpoint", f"{plan.codec_url}/{token_at(plan.codec_token_file)}"]
    return Part(
        name="temporal",
        tool="temporal",
        argv=tuple(argv),
        address=plan.temporal_address,
        ready=(
            Probe(f"{http}/api/v1/namespaces/default"),
            # Registered after the server answers: a workflow started before would be refused.
            Probe(f"{http}/api/v1/namespaces/default/search-attributes", contains=tuple(plan.search_attributes)),
            Probe(plan.ui_url),
        ),
        health=Probe(f"{http}/api/v1/namespaces/default"),
    )


def _codec(plan: Plan) -> Part:
    ui = plan.ports["temporal-ui"]
    # Of `localhost` and the address, browsers make two origins.
    origins = (f"--ui-origin=http://{host}:{ui}" for host in (LOOPBACK, "localhost"))
    serve = ("codec", "serve", f"--port={plan.ports['codec']}", f"--token-file={plan.codec_token_file}")
    alive = Probe(f"{plan.codec_url}/decode", method="OPTIONS", status=HTTPStatus.NO_CONTENT)
    named = any(os.environ.get(variable) for variable in (ENVIRONMENT_FILE, ENVIRONMENT_TEXT))
    return Part(
        name="codec",
        tool="windlass",
        argv=(sys.executable, "-m", "windlass", *serve, *origins),
        env={} if named else {ENVIRONMENT_FILE: str(plan.keyring)},
        address=plan.codec_url,
        ready=(alive,),
        health=alive,
    )


def _registry(plan: Plan) -> Part:
    alive = Probe(f"http://{plan.registry_address}/v2/")
    return Part(
        name="registry",
        tool="registry",
        argv=(plan.tools["registry"], "serve", str(_HERE / "registry" / "config.yaml")),
        env={
            "REGISTRY_HTTP_ADDR": plan.registry_address,
            "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": str(plan.folder / "registry"),
            "OTEL_TRACES_EXPORTER": "none",
        },
        address=f"oci://{plan.registry_address}",
        ready=(alive,),
        health=alive,
    )


def _nats(plan: Plan, pki: Credentials) -> Part:
    alive = Probe(f"https://{LOOPBACK}:{plan.ports['nats-monitor']}/healthz", ca=str(pki.ca))
    return Part(
        name="nats",
        tool="nats-server",
        argv=(plan.tools["nats-server"], "--config", str(nats.config_file(plan.folder))),
        address=plan.nats_url,
        ready=(alive,),
        health=alive,
    )


def _control_plane(plan: Plan, pki: Credentials) -> list[Part]:
    token = pki.token(credentials.ADMIN)
    etcd, api = f"http://{LOOPBACK}:{plan.ports['etcd']}", plan.apiserver_url
    peer = f"http://{LOOPBACK}:{plan.ports['etcd-peer']}"
    serving = (f"--tls-cert-file={pki.serving_certificate}", f"--tls-private-key-file={pki.serving_key}")

    def https(port: str, path: str, contains: tuple[str, ...] = ()) -> Probe:
        return Probe(f"https://{LOOPBACK}:{plan.ports[port]}{path}", token, str(pki.ca), contains)

    def controller(name: str, user: str, *flags: str, ready: tuple[Probe, ...] = ()) -> Part:
        kubeconfig = pki.kubeconfig(user)
        health = https(name, "/healthz")
        argv = (
            plan.tools[name],
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={plan.ports[name]}",
            *serving,
            *_CLIENT_RATE,
            *flags,
        )
        address = f"https://{LOOPBACK}:{plan.ports[name]}"
        return Part(name, name, argv, needs=("kube-apiserver",), address=address, ready=(health, *ready), health=health)

    return [
        Part(
            name="etcd",
            tool="etcd",
            argv=(
                plan.tools["etcd"],
                *("--data-dir", str(plan.folder / "etcd")),
                *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
                # The page cache outlives a killed process; only a machine crash can cost data.
                "--unsafe-no-fsync",
                *("--log-level", "warn"),
            ),
            address=etcd,
            ready=(Probe(f"{etcd}/health", contains=('"health":"true"',)),),
            health=Probe(f"{etcd}/health"),
        ),
        Part(
            name="kube-apiserver",
            tool="kube-apiserver",
            argv=(
                plan.tools["kube-apiserver"],
                f"--etcd-servers={etcd}",
                f"--bind-address={LOOPBACK}",
                f"--advertise-address={LOOPBACK}",
                f"--secure-port={plan.ports['kube-apiserver']}",
                *serving,
                f"--service-account-key-file={pki.service_account_public_key}",
                f"--service-account-signing-key-file={pki.service_account_key}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={pki.tokens}",
                "--authorization-mode=RBAC",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--allow-privileged=true",
                # The loopback address may not stand in an Endpoints object.
                "--endpoint-reconciler-type=none",
            ),
            needs=("etcd",),
            address=api,
            ready=(https("kube-apiserver", "/readyz"),),
            health=https("kube-apiserver", "/livez"),
        ),
        controller(
            "kube-controller-manager",
            credentials.CONTROLLER_MANAGER,
            f"--service-account-private-key-file={pki.service_account_key}",
            f"--root-ca-file={pki.ca}",
            "--use-service-account-credentials=true",
            # Pods are admitted once their namespace has its service account.
            ready=(https("kube-apiserver", "/api/v1/namespaces/default/serviceaccounts/default"),),
        ),
        controller("kube-scheduler", credentials.SCHEDULER),
        Part(
            name="kwok",
            tool="kwok",
            argv=(
                plan.tools["kwok"],
                f"--kubeconfig={pki.kubeconfig(credentials.NODES)}",
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=40",
                *(f"--config={stage}" for stage in sorted((_HERE / "stages").glob("*.yaml"))),
                f"--server-address={LOOPBACK}:{plan.ports['kwok']}",
            ),
            needs=("kube-apiserver", "objects"),
            address=f"http://{LOOPBACK}:{plan.ports['kwok']}",
            ready=(
                Probe(f"http://{LOOPBACK}:{plan.ports['kwok']}/healthz"),
                https("kube-apiserver", f"/api/v1/nodes/{NODE}", ('"reason":"KubeletReady"',)),
            ),
            health=Probe(f"http://{LOOPBACK}:{plan.ports['kwok']}/healthz"),
        ),
    ]


def _objects(plan: Plan) -> list[Part]:
    # Nodes and storage are simulated in the embedded cluster only; what Windlass itself needs goes anywhere.
    simulated = [] if plan.external_kubeconfig else sorted((_HERE / "objects" / "simulated").glob("*.yaml"))
    crds = sorted(Path(plan.crds).glob("*.yaml"))
    own = [*(_HERE / "objects").glob("*.yaml"), *crds]
    own += [*sorted(paths.roles_dir().glob("*.yaml")), *sorted(paths.policies_dir().glob("*.yaml"))]
    if not plan.external_kubeconfig:
        own += sorted((paths.policies_dir() / "mutating").glob("*.yaml"))  # a cluster of yours may be too old for these
    needs = () if plan.external_kubeconfig else ("kube-apiserver",)
    kubectl = (plan.tools["kubectl"], f"--kubeconfig={plan.kubeconfig}")
    apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=windlass-stack")
    wait = ("wait", "--for=condition=Established", "--timeout=30s")

    def task(name: str, verb: tuple[str, ...], files: list[Path], needs: tuple[str, ...]) -> Part:
        argv = (*kubectl, *verb, *(f"--filename={file}" for file in files))
        return Part(name, "kubectl", argv, needs=needs, once=True)

    return [task("objects", apply, [*simulated, *own], needs), task("crds", wait, crds, ("objects",))]
