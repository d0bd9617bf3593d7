"""What a package is once it has been read: value objects without paths that could go stale or bytes that grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from windlass.domain.hooks.bindings import KubernetesBinding
from windlass.domain.ids import Kind

type Values = dict[str, Any]
"""A JSON object: what Helm and hooks call values."""


ENABLED_SCRIPT: Final = "enabled"
"""The file by which a module decides for itself whether it is enabled."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where one version comes from: the name of a PackageRepository, the package's name and its version.

    ``version`` is what the object says: exact, a range, or exact with the digest of its archive or manifest
    (`windlass.domain.packages.wanted`).
    """

    repository: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.repository}/{self.package}:{self.version}"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One version pinned by its content.

    ``digest`` is ``sha256:<64 hex>`` over the package's files (names, modes, contents in sorted order),
    so a folder and an archive of it have one digest. ``version`` is the exact one that a range came to; empty in what
    was pinned before ranges were known.
    """

    source: Source
    digest: str
    version: str = ""

    @property
    def exact(self) -> str:
        """The exact version."""
        return self.version or self.source.version


class Binding(StrEnum):
    """What hooks bind to: moments of a lifecycle and news of objects (reference: hooks.md 2 and deckhouse.md 4)."""

    ON_STARTUP = "onStartup"
    BEFORE_HELM = "beforeHelm"
    AFTER_HELM = "afterHelm"
    BEFORE_DELETE_HELM = "beforeDeleteHelm"
    AFTER_DELETE_HELM = "afterDeleteHelm"
    KUBERNETES = "kubernetes"


ORDERED: Final = (
    Binding.ON_STARTUP,
    Binding.BEFORE_HELM,
    Binding.AFTER_HELM,
    Binding.BEFORE_DELETE_HELM,
    Binding.AFTER_DELETE_HELM,
)
"""The moments of a lifecycle itself: a hook gives an order among the hooks of the same one."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One executable hook and the moments it is bound to.

    ``path`` is relative to the package's root and names the hook everywhere (``hooks/10-secret.sh``);
    ``orders`` maps a binding to its order number; ``kubernetes`` are the objects it wants to hear of; ``timeout`` is in
    seconds.
    """

    path: str
    orders: Mapping[Binding, int]
    timeout: float = 300.0
    kubernetes: tuple[KubernetesBinding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModuleGroup:
    """Modules of which one must be there (``anyOf``) or none may be (``noneOf``), each with a range of versions."""

    name: str
    description: str = ""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How settings of version ``version - 1`` become those of ``version``: jq programs, applied in order."""

    version: int
    programs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Definition:
    """``package.yaml`` as Windlass uses it.

    ``kubernetes``, ``platform`` and the values of ``modules`` are semver ranges; an empty range admits any version.
    ``type`` is the kind of object that installs the package, None if any does. ``weight`` orders modules (0: as if it
    were 999); ``critical`` and ``exclusive_group`` are modules' too, and wait for the scheduler.
    """

    name: str
    version: str
    type: Kind | None = None
    stage: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])
    kubernetes: str = ""
    platform: str = ""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    optional_modules: Mapping[str, str] = field(default_factory=dict[str, str])
    any_of: tuple[ModuleGroup, ...] = ()
    none_of: tuple[ModuleGroup, ...] = ()
    weight: int = 0
    critical: bool = False
    exclusive_group: str = ""
    disable_confirmation: bool = False
    disable_message: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package read from its folder: everything decisions need; the chart itself stays on disk.

    ``static_values`` are already unwrapped from the camelCase key, which ``scoped`` says they had; schemas are the
    parsed YAML or None when the file is missing or empty; ``chart_schema`` is the chart's ``values.schema.json``, None
    also where only Helm can tell what it is about; ``images`` maps image names to digests; ``enabled_script``
    says that a module decides for itself whether it is enabled (the file ``enabled``).
    """

    definition: Definition
    static_values: Values
    scoped: bool = False
    settings_schema: Values | None = None
    values_schema: Values | None = None
    chart_schema: Values | None = None
    images: Mapping[str, str] = field(default_factory=dict[str, str])
    has_chart: bool = True
    chart_has_hooks: bool = False
    hook_files: tuple[str, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    enabled_script: bool = False

    @property
    def programs(self) -> tuple[str, ...]:
        """Files of the package that Windlass runs."""
        return (*self.hook_files, ENABLED_SCRIPT) if self.enabled_script else self.hook_files


def hooks_for(hooks: tuple[Hook, ...], binding: Binding) -> tuple[Hook, ...]:
    """Return the hooks of one binding in running order: by order number, then by path."""
    bound = [hook for hook in hooks if binding in hook.orders]
    return tuple(sorted(bound, key=lambda hook: (hook.orders[binding], hook.path)))
