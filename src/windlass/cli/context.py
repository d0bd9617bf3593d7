"""Which cluster, which Temporal, which installation: worked out once per command from flags, environment and stack.

Order for each part by itself: the explicit option, the usual environment variables (KUBECONFIG, TEMPORAL_*), the
embedded stack that runs in the data directory, the usual default file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.devstack import paths
from windlass.devstack.stack import Stack
from windlass.devstack.state import is_running
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import DEFAULT_INSTALLATION

if TYPE_CHECKING:
    from temporalio.client import Client

    from windlass.adapters.packages.format.entries import Limits as PackageLimits
    from windlass.adapters.packages.sources.transport import FetchLimits
    from windlass.adapters.runner.protocol import Limits as HookLimits
    from windlass.contracts.lifecycle import Pool
    from windlass.runtime import Runtime
    from windlass.runtime.packages import PackageLifecycles
    from windlass.temporal.client import TemporalTarget
    from windlass.temporal.digest_key import DigestKey
    from windlass.temporal.keyring import Keyring

INSTALLATION = "WINDLASS_INSTALLATION"
SHARDS = "WINDLASS_SHARDS"
POOLS = "WINDLASS_POOLS"
HOOKS_SOCKET = "WINDLASS_HOOKS_SOCKET"
HOOK_MEMORY = "WINDLASS_HOOK_MEMORY"
HOOK_DISK = "WINDLASS_HOOK_DISK"
HOOK_FILES = "WINDLASS_HOOK_FILES"
HOOK_PROCESSES = "WINDLASS_HOOK_PROCESSES"
HOOK_READABLE = "WINDLASS_HOOK_READABLE"
HOOK_WRITABLE = "WINDLASS_HOOK_WRITABLE"
WATCHER_KUBECONFIG = "WINDLASS_WATCHER_KUBECONFIG"
METRICS_ADDRESS = "WINDLASS_METRICS_ADDRESS"
CONTINUE_AFTER_EVENTS = "WINDLASS_CONTINUE_AFTER_EVENTS"
ACCEPT_PLAIN_PAYLOADS = "WINDLASS_ACCEPT_PLAIN_PAYLOADS"
"""Ends runs of lifecycles after this many events; for rehearsing the hand-over from run to run."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Everything a command needs to know about where it works.

    Attributes:
        data_dir: of the embedded stack, and of workers started on this machine.
        environ: the process's environment.
        stack: the embedded stack, if one runs in ``data_dir``.
    """

    data_dir: Path
    environ: Mapping[str, str]
    stack: Stack | None

    @classmethod
    def find(cls, data_dir: Path | None = None, environ: Mapping[str, str] | None = None) -> Context:
        """Look for a running stack in ``data_dir`` (default: `windlass.devstack.paths.data_dir`)."""
        env = os.environ if environ is None else environ
        folder = paths.data_dir(data_dir, env)
        return cls(data_dir=folder, environ=env, stack=Stack(folder) if is_running(folder) else None)

    @property
    def installation(self) -> str:
        """The installation id."""
        return self.environ.get(INSTALLATION) or DEFAULT_INSTALLATION

    @property
    def shards(self) -> int | None:
        """How many shards the installation is to have; None if nobody asks for a number."""
        return _number(self.environ, SHARDS, 1) if self.environ.get(SHARDS) else None

    @property
    def brings_servers(self) -> bool:
        """Whether there are servers to ask: a stack that runs, or a cluster or Temporal that somebody brings along."""
        named = ("KUBECONFIG", "TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")
        return self.stack is not None or any(self.environ.get(name) for name in named)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file to use.

        Raises:
            PermanentError: there is none; says how to get one.
        """
        named = self.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        if named:
            return Path(named)
        if self.stack is not None:
            return self.stack.kubeconfig
        default = Path.home() / ".kube" / "config"
        if default.exists():
            return default
        if host := self.environ.get("KUBERNETES_SERVICE_HOST"):
            from windlass.adapters.kube.kubeconfig import write_in_cluster

            port = self.environ.get("KUBERNETES_SERVICE_PORT", "443")
            return write_in_cluster(self.data_dir / "in-cluster.kubeconfig", host, port)
        raise PermanentError(
            Reason.API_UNAVAILABLE,
            f"no cluster: KUBECONFIG is not set and no stack runs in {self.data_dir}",
            hint="start one with `windlass up`, or set KUBECONFIG",
            actor=Actor.USER,
        )

    @property
    def worker_kubeconfig(self) -> Path:
        """The kubeconfig of worker processes: on an embedded stack that of their own account, never an administrator's.

        Raises:
            PermanentError: as `kubeconfig`.
        """
        found = self.kubeconfig
        if self.stack is not None and found.absolute() == self.stack.kubeconfig:
            return self.stack.worker_kubeconfig
        return found

    @property
    def watcher_kubeconfig(self) -> Path:
        """The kubeconfig of the watcher, which may run in one process with a worker and has an account of its own.

        Raises:
            PermanentError: as `kubeconfig`.
        """
        if named := self.environ.get(WATCHER_KUBECONFIG):
            return Path(named)
        found = self.kubeconfig
        if self.stack is not None and found.absolute() == self.stack.kubeconfig:
            return self.stack.watcher_kubeconfig
        return found

    @property
    def temporal(self) -> TemporalTarget:
        """The Temporal server to use.

        Raises:
            PermanentError: there is none; says how to get one.
        """
        from windlass.temporal.client import TemporalTarget

        target = TemporalTarget.from_environment(self.environ)
        if target is not None:
            return target
        if self.stack is not None:
            return TemporalTarget(address=self.stack.temporal_address)
        raise PermanentError(
            Reason.API_UNAVAILABLE,
            f"no Temporal: TEMPORAL_ADDRESS is not set and no stack runs in {self.data_dir}",
            hint="start one with `windlass up`, or set TEMPORAL_ADDRESS",
            actor=Actor.USER,
        )

    @property
    def keyring(self) -> Keyring:
        """The keyring named by the environment, else the one that `windlass up` made in the data directory.

        Raises:
            PermanentError: there is none. A new one would read nothing of what the installation has written.
        """
        from windlass.temporal.keyring import ENVIRONMENT_FILE, Keyring

        file = self.data_dir / "keyring.yaml"
        found = Keyring.from_environment(self.environ) or (Keyring.load(file) if file.exists() else None)
        if found is None:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"there is no keyring: {ENVIRONMENT_FILE} is not set and {file} does not exist",
                hint=f"set {ENVIRONMENT_FILE} to the installation's keyring, or --data-dir to its stack's folder",
                actor=Actor.ADMIN,
            )
        return found

    @property
    def digest_key(self) -> DigestKey:
        """The digest key named by the environment, else the one that `windlass up` made in the data directory.

        Raises:
            PermanentError: there is none. With a new one all that the installation has kept would be refused.
        """
        from windlass.temporal.digest_key import ENVIRONMENT_FILE, DigestKey

        file = self.data_dir / "digest-key"
        found = DigestKey.from_environment(self.environ) or (DigestKey.load(file) if file.exists() else None)
        if found is None:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"there is no digest key: {ENVIRONMENT_FILE} is not set and {file} does not exist",
                hint=f"set {ENVIRONMENT_FILE} to the installation's digest key, or --data-dir to its stack's folder",
                actor=Actor.ADMIN,
            )
        return found

    @property
    def accept_plain_payloads(self) -> bool:
        """Whether what is not encoded is accepted from Temporal.

        Raises:
            PermanentError: VALIDATION_FAILED, the setting is neither true nor false.
        """
        return self.switch(ACCEPT_PLAIN_PAYLOADS, default=False)

    @property
    def ui(self) -> str:
        """Address of the Temporal UI's page for the namespace; empty if it is not known."""
        explicit = self.environ.get("WINDLASS_TEMPORAL_UI", "")
        base = explicit or (self.stack.ui_url if self.stack else "")
        return f"{base.rstrip('/')}/namespaces/{self.temporal.namespace}" if base else ""

    @property
    def helm(self) -> Path:
        """The ``helm`` program.

        Raises:
            PermanentError: there is none.
        """
        named = self.environ.get("WINDLASS_HELM") or (str(self.stack.tool("helm")) if self.stack else "")
        found = named or shutil.which("helm") or ""
        if not found:
            raise PermanentError(
                Reason.API_UNAVAILABLE,
                "the helm program was not found",
                hint="install Helm 4, set WINDLASS_HELM, or start a stack with `windlass up`",
                actor=Actor.ADMIN,
            )
        return Path(found)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Kinds of work that pools of workers do: ``helm`` or nothing.

        Raises:
            PermanentError: VALIDATION_FAILED, there is no such kind.
        """
        named = [name for name in self.environ.get(POOLS, "").replace(" ", "").split(",") if name]
        found: list[Pool] = [pool for pool in ("helm",) if pool in named]
        if len(found) != len(set(named)):
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{POOLS} is {self.environ[POOLS]!r}",
                hint="leave it empty, or set it to helm",
                actor=Actor.USER,
            )
        return tuple(found)

    @property
    def hooks_socket(self) -> Path | None:
        """Where a runner of hooks in a container of its own listens."""
        named = self.environ.get(HOOKS_SOCKET)
        return Path(named) if named else None

    @property
    def hook_limits(self) -> HookLimits:
        """What one run of a hook may use; memory and disk in MiB."""
        from windlass.adapters.runner.protocol import Limits

        usual = Limits()
        return Limits(
            memory=_number(self.environ, HOOK_MEMORY, usual.memory >> 20) << 20,
            disk=_number(self.environ, HOOK_DISK, usual.disk >> 20) << 20,
            files=_number(self.environ, HOOK_FILES, usual.files),
            processes=_number(self.environ, HOOK_PROCESSES, usual.processes),
        )

    def hook_paths(self, variable: str) -> tuple[Path, ...]:
        """Paths that hooks may use beside the usual ones, from a list like PATH."""
        return tuple(Path(path) for path in self.environ.get(variable, "").split(os.pathsep) if path)

    @property
    def metrics_address(self) -> str:
        """``HOST:PORT`` where a worker or watcher serves metrics and health; a free loopback port if nobody says."""
        return self.environ.get(METRICS_ADDRESS) or "127.0.0.1:0"

    @property
    def continue_after_events(self) -> int:
        """After how many events a lifecycle's run hands over to the next."""
        return _number(self.environ, CONTINUE_AFTER_EVENTS, 2000)

    def switch(self, name: str, *, default: bool) -> bool:
        """Return what the environment variable ``name`` says: true or false.

        Raises:
            PermanentError: VALIDATION_FAILED, it says something else.
        """
        text = self.environ.get(name, "") or str(default).lower()
        if text not in {"true", "false"}:
            raise PermanentError(
                Reason.VALIDATION_FAILED, f"{name} is {text!r}", hint="set it to true or false", actor=Actor.USER
            )
        return text == "true"

    def number(self, name: str, default: int) -> int:
        """Return a whole number from 1 that the environment variable ``name`` holds.

        Raises:
            PermanentError: VALIDATION_FAILED, it holds something else.
        """
        return _number(self.environ, name, default)

    @property
    def package_limits(self) -> PackageLimits:
        """What a package may at most be; archives and files in MiB."""
        from windlass.adapters.packages.format.entries import MAX_FILES, MAX_PACKED, MAX_UNPACKED, Limits

        usual = Limits()
        return replace(
            usual,
            packed=_number(self.environ, MAX_PACKED, usual.packed >> 20) << 20,
            unpacked=_number(self.environ, MAX_UNPACKED, usual.unpacked >> 20) << 20,
            entries=_number(self.environ, MAX_FILES, usual.entries),
        )

    @property
    def fetch_limits(self) -> FetchLimits:
        """What a package repository may take; the time of one request in seconds, its index in MiB."""
        from windlass.adapters.packages.sources.transport import MAX_FETCH, MAX_INDEX, MAX_REDIRECTS, FetchLimits

        usual = FetchLimits()
        return replace(
            usual,
            total=float(_number(self.environ, MAX_FETCH, int(usual.total))),
            index=_number(self.environ, MAX_INDEX, usual.index >> 20) << 20,
            redirects=_number(self.environ, MAX_REDIRECTS, usual.redirects, least=0),
        )

    @asynccontextmanager
    async def lifecycles(self, role: str = "cli") -> AsyncGenerator[PackageLifecycles]:
        """Connect to Temporal and yield the façade over the package lifecycles."""
        from windlass.contracts.lifecycle import Limits
        from windlass.runtime.packages import PackageLifecycles

        yield PackageLifecycles(
            await self.connect(role),
            installation=self.installation,
            limits=Limits(events=self.continue_after_events),
        )

    @asynccontextmanager
    async def runtime(self, role: str = "runtime") -> AsyncGenerator[Runtime]:
        """Connect to the cluster and to Temporal, and yield the façade over the installation's packages.

        Content that it has to read is fetched into a temporary folder of its own.
        """
        from windlass import __version__
        from windlass.activities.content import Contents
        from windlass.adapters.kube.client import KubeClient
        from windlass.adapters.kube.records import RecordStore
        from windlass.adapters.packages.cache.store import PackageStore
        from windlass.runtime import Runtime

        digest_key = self.digest_key.key
        client = KubeClient.from_kubeconfig(self.kubeconfig, user_agent=f"windlass-{role}/{__version__}")
        with tempfile.TemporaryDirectory(prefix="windlass-runtime-") as folder:
            packages = PackageStore(Path(folder), self.package_limits, self.fetch_limits)
            async with client as kube, self.lifecycles(role) as lifecycles:
                yield Runtime(
                    kube=kube,
                    lifecycles=lifecycles,
                    contents=Contents(kube, packages, RecordStore(kube, digest_key), digest_key),
                    installation=self.installation,
                )

    async def connect(self, role: str) -> Client:
        """Connect to Temporal."""
        from windlass.temporal.client import connect

        return await connect(self.temporal, keyring=self.keyring, role=role, accept_plain=self.accept_plain_payloads)


def _number(environ: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{name} is {text!r}",
            hint=f"set it to a whole number from {least}",
            actor=Actor.USER,
        )
    return int(text)
