"""Executable hooks: finding and running them, and what they do to objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from windlass.domain.errors import Reason, TransientError
from windlass.domain.hooks.metrics import Sample
from windlass.domain.hooks.patch_operations import Bounds
from windlass.domain.packages.model import Binding, Hook, Values
from windlass.ports.kube import Kube


@dataclass(frozen=True, kw_only=True)
class HookRun:
    """One run of one hook.

    ``root`` is the package's folder; ``kubeconfig`` the text of the hook's own kubeconfig; ``values`` and
    ``config_values`` have the package's camelCase key (and ``global``) on top, as the file protocol wants.
    """

    root: Path
    hook: Hook
    binding: Binding
    context: list[dict[str, Any]]
    values: Values
    config_values: Values
    kubeconfig: str
    namespace: str
    package_id: str


@dataclass(frozen=True, kw_only=True)
class HookOutput:
    """What a run that exited with 0 left in its files, parsed and checked for form."""

    values_patch: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    config_values_patch: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    operations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    metrics: tuple[Sample, ...] = ()
    duration: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EnabledRun:
    """One question to a module's ``enabled`` script; the files are those of `HookRun`."""

    root: Path
    values: Values
    config_values: Values
    namespace: str
    package_id: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the script says, and why if it says so."""

    enabled: bool
    reason: str = ""


class HookFailedError(TransientError):
    """A hook ended with an error; ``operations`` are what it asked for all the same, of its object operations."""

    def __init__(self, reason: Reason, message: str, *, hint: str, operations: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(reason, message, hint=hint)
        self.operations = tuple(operations)


class Hooks(Protocol):
    """Executable hooks. Every process runs in its own group, which is killed as a whole on cancel or time-out."""

    async def discover(self, root: Path, files: Sequence[str]) -> tuple[Hook, ...]:
        """Run each file with ``--config`` only and parse its answer.

        Raises:
            PermanentError: INIT_HOOKS_FAILED naming the file, its exit status or the field that is wrong.
        """
        ...

    async def run(self, run: HookRun) -> HookOutput:
        """Run one hook.

        Raises:
            HookFailedError: the exit status is not 0, or it timed out; the reason depends on the binding
                (`windlass.domain.hooks.configuration.failure_reason`), the text ends with the hook's last lines.
            TransientError: its output is malformed; the reason is the same.
        """
        ...


class EnabledScripts(Protocol):
    """The scripts by which modules decide for themselves (reference: hooks.md section 5)."""

    async def ask(self, run: EnabledRun) -> Verdict:
        """Run the script, without any access to the cluster.

        Raises:
            TransientError: ENABLED_SCRIPT_ERROR, it fails, takes too long, or says neither true nor false.
        """
        ...


class ObjectPatcher(Protocol):
    """Executes the patch operations of a hook (reference: hooks.md section 6) within its package's bounds."""

    async def execute(self, operations: Sequence[Mapping[str, Any]], bounds: Bounds) -> None:
        """Execute in order, go on after an error, then raise one TransientError that lists the failures."""
        ...


class HookPatchers(Protocol):
    """Object patchers with the rights of a hook."""

    def over(self, kube: Kube, package: str) -> ObjectPatcher:
        """Return a patcher whose operations may do what this client may, and no more.

        ``package`` is whose hook it is: the filters of its operations run on its behalf.
        """
        ...
