"""The parts of a stack: command line, address, what each needs, and how one knows that it is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from windlass.devstack import clusters, control_plane, nats, paths
from windlass.devstack.control_plane import APPLY, SIMULATED, ControlPlane
from windlass.devstack.credentials import Credentials
from windlass.devstack.part import Part
from windlass.devstack.plan import Plan
from windlass.devstack.ports import LOOPBACK
from windlass.devstack.probe import Probe
from windlass.temporal.codec_token import token_at
from windlass.temporal.keyring import ENVIRONMENT_FILE, ENVIRONMENT_TEXT

_HERE: Final = Path(__file__).parent

_TEMPORAL_PRAGMAS: Final = ("journal_mode=wal", "synchronous=normal")  # 2.8 -> 25 to 35 workflows/s
TEMPORAL_DYNAMIC: Final = (
    "system.enableActivityEagerExecution=true",
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)  # signal to activity start: p50 85 -> 35 ms


def of(plan: Plan) -> list[Part]:
    """Return the parts of a stack in the order in which they come up."""
    parts: list[Part] = []
    if not plan.external_temporal:
        parts += [_temporal(plan), _codec(plan)]
    if not plan.external_kubeconfig:
        parts += control_plane.of(plan, ControlPlane())
    if plan.registry_address:
        parts.append(_registry(plan))
    if plan.nats_url:
        parts.append(_nats(plan, Credentials(plan.folder / "pki")))
    return [*parts, *_objects(plan), *clusters.parts(plan)]


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


def _objects(plan: Plan) -> list[Part]:
    # Nodes and storage are simulated in the embedded cluster only; what Windlass itself needs goes anywhere.
    simulated = [] if plan.external_kubeconfig else sorted(SIMULATED.glob("*.yaml"))
    crds = sorted(Path(plan.crds).glob("*.yaml"))
    own = [*(_HERE / "objects").glob("*.yaml"), *crds]
    own += [*sorted(paths.roles_dir().glob("*.yaml")), *sorted(paths.policies_dir().glob("*.yaml"))]
    if not plan.external_kubeconfig:
        own += sorted((paths.policies_dir() / "mutating").glob("*.yaml"))  # a cluster of yours may be too old for these
    needs = () if plan.external_kubeconfig else ("kube-apiserver",)
    kubectl = (plan.tools["kubectl"], f"--kubeconfig={plan.kubeconfig}")
    wait = ("wait", "--for=condition=Established", "--timeout=30s")

    def task(name: str, verb: tuple[str, ...], files: list[Path], needs: tuple[str, ...]) -> Part:
        argv = (*kubectl, *verb, *(f"--filename={file}" for file in files))
        return Part(name, "kubectl", argv, needs=needs, once=True)

    return [task("objects", APPLY, [*simulated, *own], needs), task("crds", wait, crds, ("objects",))]
