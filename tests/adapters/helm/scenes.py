"""What the Helm tests share: templates, charts written by a test, and a view of the cluster past the client."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.ports.helm import ReleaseRequest
from windlass.ports.kube import Object, ObjectRef

FIRST = "sha256:" + "1" * 64
OWNER = "Application tests/web"
SECOND = "sha256:" + "2" * 64

_CONFIG_MAP = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  annotations: {{{annotations}}}
data:
  value: {value}
"""


def config_map(name: str, *, value: str = "{{ $.Values.value | quote }}", annotations: str = "") -> str:
    """A template of one ConfigMap that shows the value ``value``."""
    return _CONFIG_MAP.format(name=name, value=value, annotations=annotations)


def many(count: int) -> str:
    """A template of so many ConfigMaps, many-0 the first."""
    return f"{{{{ range $i := until {count} }}}}\n{config_map('many-{{ $i }}')}{{{{ end }}}}\n"


def write_chart(folder: Path, *templates: str, **files: str) -> Path:
    """Write a chart of templates and further files by name (``values_schema_json`` is ``values.schema.json``)."""
    (folder / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {folder.name}\nversion: 1.10.0\n")
    for number, template in enumerate(templates):
        (folder / "templates" / f"{number}.yaml").write_text(template)
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text)
    return folder


def running(pid: int) -> bool:
    """Say whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """Return the process ids of the direct children."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


class Charts(Protocol):
    def __call__(self, *templates: str, name: str = ..., **files: str) -> Path: ...


class Requests(Protocol):
    def __call__(
        self, chart: Path, digest: str = ..., *, has_hooks: bool = ..., timeout: float = ..., **values: Any
    ) -> ReleaseRequest: ...


@dataclass(frozen=True)
class Cluster:
    """What tests read and do in one namespace, past the client under test."""

    stack: Stack
    kube: KubeClient
    namespace: str
    release: str

    def ref(self, name: str) -> ObjectRef:
        return ObjectRef(api_version="v1", kind="ConfigMap", namespace=self.namespace, name=name)

    async def config_map(self, name: str) -> Object | None:
        return await self.kube.get(self.ref(name))

    async def delete(self, name: str) -> None:
        assert await self.kube.delete(self.ref(name))

    async def revisions(self) -> list[tuple[int, str]]:
        """Number and status of every stored revision, in ascending order."""
        found = await self.kube.list(
            "v1",
            "Secret",
            namespace=self.namespace,
            label_selector=f"owner=helm,name={self.release}",
            metadata_only=True,
        )
        labels = [item["metadata"]["labels"] for item in found.items]
        return sorted((int(each["version"]), each["status"]) for each in labels)

    async def status(self) -> str:
        """The newest stored revision's status; empty if there is none."""
        revisions = await self.revisions()
        return revisions[-1][1] if revisions else ""

    def by_hand(self, *arguments: str) -> str:
        """Run the helm program as a person would."""
        command = [str(self.stack.tool("helm")), *arguments, "--namespace", self.namespace]
        command += ["--kubeconfig", str(self.stack.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
