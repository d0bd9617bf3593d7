"""Packages that tell what happened to them: their hooks keep a journal outside, and wait where a test says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support.installation import write_package

BINDINGS = ("onStartup", "beforeHelm", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm")

_HOOK = """\
#!/bin/sh
dir={folder}
if [ "$1" = --config ]; then
  binding=config
else
  binding=$(sed -n 's/.*"binding": *"\\([a-zA-Z]*\\)".*/\\1/p' "$BINDING_CONTEXT_PATH")
fi
umask 0  # the next run, or the discovery, may be another user's
exec 9>> "$dir/lock"
flock -n 9 || echo "$binding meets another {version}" >> "$dir/journal"
echo "$binding started {version}" >> "$dir/journal"
while [ -e "$dir/hold-$binding" ]; do sleep 0.05; done
echo "$binding finished {version}" >> "$dir/journal"
if [ "$binding" = config ]; then
  echo '{{"configVersion": "v1", "onStartup": 1, "beforeHelm": 1, "afterHelm": 1, "beforeDeleteHelm": 1,
    "afterDeleteHelm": 1}}'
fi
"""

_CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}{metadata}
data:
  version: {{ .Chart.Version | quote }}
  greeting: {{ .Values.greeting | quote }}
"""
_FINALIZER = "\n  finalizers: [tests.windlass.dev/hold]"

_GATED = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name | replace "." "-" }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}, version: {{ .Chart.Version | quote }}}
    spec:
      schedulingGates: [{name: tests.windlass.dev/hold}]
      containers: [{name: main, image: example.invalid/none}]
"""
"""A Deployment whose pods wait for a test to open their gate."""


@dataclass(frozen=True)
class Subject:
    """One package on disk with the journal of its hooks.

    Attributes:
        name: of the package and its Application.
        repository: folder of the repository.
        folder: of the journal, and of what holds the hooks.
        has_hooks: it has one hook for all five bindings that keeps the journal.
    """

    name: str
    repository: Path
    folder: Path
    has_hooks: bool = True

    def write(self, *versions: str, gated: bool = False, finalizer: bool = False) -> None:
        """Write versions of the package.

        Args:
            versions: what to write.
            gated: with a Deployment that becomes ready only once its pods' scheduling gates are removed.
            finalizer: the ConfigMap stays after its deletion until somebody takes its finalizer off.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o777)
        config_map = _CONFIG_MAP.replace("{metadata}", _FINALIZER if finalizer else "")
        for version in versions:
            write_package(
                self.repository,
                self.name,
                version,
                templates={"config.yaml": config_map, **({"deployment.yaml": _GATED} if gated else {})},
                settings={"greeting": {"type": "string", "default": "hello", "maxLength": 20}},
                hooks={"all.sh": _HOOK.format(folder=self.folder, version=version)} if self.has_hooks else {},
            )

    def hold(self, binding: str) -> None:
        """Let the next run for ``binding`` (or the discovery, ``config``) wait after it has begun."""
        (self.folder / f"hold-{binding}").touch()

    def go_on(self) -> None:
        """Let all hooks go on."""
        for file in self.folder.glob("hold-*"):
            file.unlink()

    def journal(self) -> list[str]:
        """Return what the hooks wrote, discovery apart: ``<binding> started|finished <version>``."""
        return [line for line in self._lines() if not line.startswith("config ")]

    def wrote(self, what: str) -> bool:
        """Say whether a hook, or the discovery, wrote this line."""
        return what in self._lines()

    def clear(self) -> None:
        """Forget the journal."""
        (self.folder / "journal").unlink(missing_ok=True)

    def _lines(self) -> list[str]:
        path = self.folder / "journal"
        return path.read_text().splitlines() if path.exists() else []
