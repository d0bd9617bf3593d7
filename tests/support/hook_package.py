"""A package folder whose hooks a test writes as shell scripts."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.adapters.hooks.runner import RunnerSettings
from windlass.domain.hooks.configuration import binding_context
from windlass.domain.packages.model import Binding, Hook
from windlass.ports.hooks import HookRun

type Logged = list[MutableMapping[str, Any]]


def settings(folder: Path, *, runs: str = "runs", **keys: Any) -> RunnerSettings:
    """Return how hooks of the package in ``folder`` are run: they may write into it, so that tests see what they do."""
    package = folder / "package"
    return RunnerSettings(runs=folder / runs, **({"packages": (package,), "writable": (package,)} | keys))


@dataclass(frozen=True)
class HookPackage:
    root: Path

    def write(self, script: str, *, path: str = "hooks/hook.sh", mode: int = 0o755) -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.root, file.parent):  # tests let hooks write here, whose user is not ours
            folder.chmod(0o777)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(mode)
        return path

    def hook_run(
        self,
        script: str,
        *,
        path: str = "hooks/hook.sh",
        binding: Binding = Binding.BEFORE_HELM,
        timeout: float = 30.0,
        **keys: Any,
    ) -> HookRun:
        self.write(script, path=path)
        return self.run_of(path, binding=binding, timeout=timeout, **keys)

    def run_of(
        self, path: str, *, binding: Binding = Binding.BEFORE_HELM, timeout: float = 30.0, **keys: Any
    ) -> HookRun:
        defaults = {
            "context": binding_context(binding),
            "values": {},
            "config_values": {},
            "kubeconfig": "",
            "namespace": "prod",
            "package_id": "prod.billing",
        }
        hook = Hook(path=path, orders={binding: 1}, timeout=timeout)
        return HookRun(root=self.root, hook=hook, binding=binding, **(defaults | keys))
