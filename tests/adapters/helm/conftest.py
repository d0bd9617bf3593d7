"""A Helm client on the embedded stack, a namespace per test, and charts written by the test."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest

from windlass.adapters.helm.client import HelmClient
from windlass.adapters.kube.client import KubeClient
from windlass.devstack.stack import Stack
from windlass.ports import Object, ObjectRef, ReleaseRef, ReleaseRequest

CONFIG_MAP = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  annotations: {{{annotations}}}
data:
  value: {value}
"""


def config_map(name: str, value: str = '{{ .Values.value | quote }}', annotations: str = "") -> str:
    return CONFIG_MAP.format(name=name, value=value, annotations=annotations)


def many(count: int) -> str:
    """A template that is applied for about a second, so that a test can look into the middle of it."""
    body = config_map('many-{{ $i }}', "{{ $.Values.value | quote }}")
    return f"{{{{ range $i := until {count} }}}}\n{body}{{{{ end }}}}\n"


@pytest.fixture(scope="session")
async def kube(stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=1000, burst=1000) as client:
        yield client


@pytest.fixture(scope="session")
async def helm(stack: Stack, kube: KubeClient, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HelmClient]:
    scratch = tmp_path_factory.mktemp("helm")
    async with HelmClient(
        kube=kube, kubeconfig=stack.kubeconfig, helm=Path(stack.tool("helm")), scratch=scratch, pool_size=2
    ) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    name = f"helm-{uuid4().hex[:8]}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


@pytest.fixture
def ref(namespace: str) -> ReleaseRef:
    return ReleaseRef(namespace=namespace, name=f"{namespace}.web")


class Charts(Protocol):
    def __call__(self, *templates: str, name: str = ..., **files: str) -> Path: ...


@pytest.fixture
def chart(tmp_path: Path) -> Charts:
    """Write a chart: templates, and further files by name (``values_schema_json`` is ``values.schema.json``)."""

    def write(*templates: str, name: str = "web", **files: str) -> Path:
        folder = tmp_path / name
        (folder / "templates").mkdir(parents=True, exist_ok=True)
        (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.10.0\n")
        for number, template in enumerate(templates):
            (folder / "templates" / f"{number}.yaml").write_text(template)
        for file, text in files.items():
            (folder / file.replace("_", ".")).write_text(text)
        return folder

    return write


class Requests(Protocol):
    def __call__(self, chart: Path, digest: str = ..., *, has_hooks: bool = ..., **values: Any) -> ReleaseRequest: ...


@pytest.fixture
def request_for(ref: ReleaseRef) -> Requests:
    def build(chart: Path, digest: str = "sha256:" + "1" * 64, *, has_hooks: bool = False, **values: Any) -> ReleaseRequest:
        return ReleaseRequest(ref=ref, chart=chart, chart_has_hooks=has_hooks, values=values, digest=digest)

    return build


@dataclass(frozen=True)
class Cluster:
    """What tests read and do in one namespace, past the client under test."""

    stack: Stack
    kube: KubeClient
    namespace: str
    release: str

    async def config_map(self, name: str) -> Object | None:
        return await self.kube.get(ObjectRef(api_version="v1", kind="ConfigMap", namespace=self.namespace, name=name))

    async def delete(self, name: str) -> None:
        assert await self.kube.delete(
            ObjectRef(api_version="v1", kind="ConfigMap", namespace=self.namespace, name=name)
        )

    async def revisions(self) -> list[tuple[int, str]]:
        """Number and status of every stored revision, in ascending order."""
        found = await self.kube.list(
            "v1", "Secret", namespace=self.namespace, label_selector=f"owner=helm,name={self.release}"
        )
        labels = [item["metadata"]["labels"] for item in found.items]
        return sorted((int(each["version"]), each["status"]) for each in labels)

    def by_hand(self, *arguments: str) -> str:
        """Run the helm program as a person would."""
        command = [str(self.stack.tool("helm")), *arguments, "--namespace", self.namespace]
        done = subprocess.run(
            [*command, "--kubeconfig", str(self.stack.kubeconfig)], capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout


@pytest.fixture
def cluster(stack: Stack, kube: KubeClient, ref: ReleaseRef) -> Cluster:
    return Cluster(stack, kube, ref.namespace, ref.name)
