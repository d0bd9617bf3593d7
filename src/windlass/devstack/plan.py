"""What one start of a stack consists of; written by `windlass.devstack.stack`, read by its supervisor."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from windlass.devstack.ports import LOOPBACK

PORTS: Final = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "temporal",
    "temporal-ui",
    "temporal-http",
    "temporal-metrics",
    "codec",
    "registry",
    "nats",
    "nats-monitor",
)
"""Names of the loopback ports of one stack."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the supervisor needs to know.

    Attributes:
        run_id: tells the state of this start from that of an earlier one.
        data_dir: folder of the stack.
        tools: path of each program in use, by tool name.
        versions: version of each program in use, by tool name.
        ports: loopback port by name, see `PORTS`.
        search_attributes: Temporal search attribute type by name, registered at each start.
        external_kubeconfig: kubeconfig of a cluster that takes the place of the embedded one; empty for none.
        external_temporal: host:port of a Temporal that takes the place of the embedded one; empty for none.
        crds: folder of CustomResourceDefinitions to install; empty for none.
        detached: whether the stack outlives the process that starts it.
        clusters: names of the clusters beside the management cluster.
        own_etcd: names of those that do not share its etcd.
        clusters_namespace: where the management cluster holds their kubeconfigs, in Secrets of their names.
        on_demand: whether the clusters beside the management cluster wait until somebody starts them.
    """

    run_id: str
    data_dir: str
    tools: dict[str, str]
    versions: dict[str, str]
    ports: dict[str, int]
    search_attributes: dict[str, str]
    external_kubeconfig: str = ""
    external_temporal: str = ""
    crds: str = ""
    detached: bool = False
    clusters: list[str] = field(default_factory=list[str])
    own_etcd: list[str] = field(default_factory=list[str])
    clusters_namespace: str = "default"
    on_demand: bool = False

    @property
    def folder(self) -> Path:
        """The stack's folder."""
        return Path(self.data_dir)

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster in use, with all rights when it is the embedded one."""
        return Path(self.external_kubeconfig or self.folder / "kubeconfig")

    @property
    def temporal_address(self) -> str:
        """host:port of the Temporal in use."""
        return self.external_temporal or f"{LOOPBACK}:{self.ports['temporal']}"

    @property
    def ui_url(self) -> str:
        """URL of the embedded Temporal's UI; empty when Temporal is somebody else's."""
        return "" if self.external_temporal else f"http://{LOOPBACK}:{self.ports['temporal-ui']}"

    @property
    def apiserver_url(self) -> str:
        """URL of the embedded API server; empty when the cluster is somebody else's."""
        return "" if self.external_kubeconfig else f"https://{LOOPBACK}:{self.ports['kube-apiserver']}"

    @property
    def codec_url(self) -> str:
        """URL of the decode endpoint, without the token."""
        return f"http://{LOOPBACK}:{self.ports['codec']}"

    @property
    def registry_address(self) -> str:
        """host:port of the OCI registry; empty when the stack has none."""
        return f"{LOOPBACK}:{self.ports['registry']}" if "registry" in self.tools else ""

    @property
    def nats_url(self) -> str:
        """URL of the NATS server; empty when the stack has none."""
        return f"tls://{LOOPBACK}:{self.ports['nats']}" if "nats-server" in self.tools else ""

    @property
    def keyring(self) -> Path:
        """The installation's keyring unless the environment names another."""
        return self.folder / "keyring.yaml"

    @property
    def digest_key(self) -> Path:
        """The installation's digest key unless the environment names another."""
        return self.folder / "digest-key"

    @property
    def codec_token_file(self) -> Path:
        """File with the decode endpoint's shared secret."""
        return self.folder / "codec-token"

    def cluster_folder(self, name: str) -> Path:
        """Folder of the keys and data of a cluster beside the management cluster."""
        return self.folder / "clusters" / name

    def log(self, part: str) -> Path:
        """Path of a part's log."""
        return self.folder / "logs" / f"{part}.log"

    def save(self) -> Path:
        """Write the plan into its data directory and return the file."""
        file = self.folder / "plan.json"
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        temporary.replace(file)
        return file

    @classmethod
    def load(cls, file: Path) -> Plan:
        """Read what `save` wrote."""
        return cls(**json.loads(file.read_text()))
