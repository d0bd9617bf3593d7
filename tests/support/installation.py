"""One installation of Windlass as a user runs it: worker and watcher processes against the embedded stack."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from temporalio.api.history.v1 import WorkflowExecutionStartedEventAttributes
from temporalio.client import Client, WorkflowHistory

from support.waiting import PATIENCE, eventually
from windlass.adapters.kube.client import KubeClient
from windlass.cli.context import WATCHER_KUBECONFIG
from windlass.cli.target import parse_target
from windlass.contracts.lifecycle import Action
from windlass.devstack.stack import Stack
from windlass.domain.ids import (
    API_VERSION,
    FINALIZER,
    INSTALLATION_LABEL,
    SYSTEM_NAMESPACE,
    Kind,
    PackageKey,
    package_workflow_id,
    record_name,
    release_name,
)
from windlass.ports.kube import Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.digest_key import DigestKey
from windlass.temporal.keyring import Keyring

THRESHOLD = "WINDLASS_CONTINUE_AFTER_EVENTS"
"""Set in the environment of the tests: events after which the lifecycles of their workers hand over to a next run."""

WRITABLE = "WINDLASS_HOOK_WRITABLE"
"""Set as well: the folder of all tests, so that hooks can leave there what tests look at."""

INHERITED = ("PATH", "HOME", "LANG", THRESHOLD, WRITABLE)
"""What the processes take from the environment of the tests: little, so that tests do not depend on who runs them."""


@dataclass
class Installation:
    """Processes, clients, and short words for what tests say.

    ``environ`` is added to the processes' environment; ``namespace`` is this installation's own.
    """

    stack: Stack
    folder: Path
    kube: KubeClient
    client: Client
    lifecycles: PackageLifecycles
    name: str
    namespace: str
    keyring: Keyring
    digest_key: DigestKey
    environ: dict[str, str] = field(default_factory=dict[str, str])
    process: subprocess.Popen[bytes] | None = None

    # -- processes ---------------------------------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        """What the processes have logged."""
        return self.folder / "worker.log"

    def start(self, role: str = "all", *, data: str = "", **environ: str) -> subprocess.Popen[bytes]:
        """Start ``windlass worker --role ROLE``; processes beside one another need data folders of their own."""
        env = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            **self.stack.worker_env,
            "WINDLASS_INSTALLATION": self.name,
            "WINDLASS_KEYRING_FILE": str(self.folder / "keyring.yaml"),
            "WINDLASS_DIGEST_KEY_FILE": str(self.folder / "digest-key"),
            "WINDLASS_HELM": str(self.stack.tool("helm")),
            "WINDLASS_TEMPORAL_UI": self.stack.ui_url,
            "WINDLASS_HOOK_READABLE": str(self.stack.tool("kubectl").parent),
            **self.environ,
            **environ,
        }
        if "KUBECONFIG" in environ and WATCHER_KUBECONFIG not in environ:
            del env[WATCHER_KUBECONFIG]  # one identity for everything, as the test wants it
        command = [sys.executable, "-m", "windlass", "worker", "--role", role, "--log-format", "json"]
        command += ["--data-dir", str(self.folder / data)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(self.folder / data)],
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def kill(self) -> None:
        """Kill -9 the process; its helm children and hooks die with it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> int:
        """Stop the process as an init system would; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process = None
        return code

    # -- objects -----------------------------------------------------------------------------------------------------

    def key(self, name: str) -> PackageKey:
        """Name a package of this installation: an Application, or ``module/NAME``."""
        target = parse_target(name)
        namespace = "" if target.kind is Kind.MODULE else self.namespace
        return PackageKey(installation=self.name, kind=target.kind, namespace=namespace, name=target.name)

    def package_ref(self, name: str) -> ObjectRef:
        """Name a package's object."""
        key = self.key(name)
        return ObjectRef(api_version=API_VERSION, kind=key.kind, namespace=key.namespace, name=key.name)

    def ref(self, kind: str, name: str, api_version: str = "v1") -> ObjectRef:
        """Name an object in this installation's namespace."""
        return ObjectRef(api_version=api_version, kind=kind, namespace=self.namespace, name=name)

    async def repository(self, path: Path, name: str = "") -> str:
        """Declare a repository of kind file; return its name."""
        name = name or f"repo-{self.name}"
        await self.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "PackageRepository",
                "metadata": {"name": name},
                "spec": {"kind": "file", "file": {"path": str(path)}},
            }
        )
        return name

    async def application(self, name: str, package: str, version: str, **spec: Any) -> None:
        """Create or change an Application; fields of the spec that are not given are dropped."""
        await self.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Application",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "labels": {INSTALLATION_LABEL: self.name},
                },
                "spec": {
                    "package": {"repository": f"repo-{self.name}", "name": package, "version": version},
                    **spec,
                },
            }
        )

    async def module(self, name: str, version: str, **spec: Any) -> None:
        """Create or change a Module; fields of the spec that are not given are dropped."""
        await self.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Module",
                "metadata": {"name": name, "labels": {INSTALLATION_LABEL: self.name}},
                "spec": {"package": {"repository": f"repo-{self.name}", "name": name, "version": version}, **spec},
            }
        )

    async def apply(self, obj: Object) -> Object:
        """Server-side apply as a user."""
        return await self.kube.apply(obj, field_manager="user")

    async def get(self, kind: str, name: str, api_version: str = "v1") -> Object | None:
        """Read an object in this installation's namespace."""
        return await self.kube.get(self.ref(kind, name, api_version))

    async def record(self, name: str) -> Object | None:
        """Read a package's state Secret."""
        secret = ObjectRef(
            api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=record_name(self.key(name))
        )
        return await self.kube.get(secret)

    async def object(self, name: str) -> Object | None:
        """Read a package's object."""
        return await self.kube.get(self.package_ref(name))

    async def delete(self, name: str) -> None:
        """Ask for a package's removal."""
        await self.kube.delete(self.package_ref(name))

    async def ready(self, name: str, version: str = "", *, within: float = PATIENCE) -> Object:
        """Wait until the package is ready (with ``version``) for its newest generation."""

        async def reached() -> Object | None:
            obj = await self.object(name)
            status: Object = (obj or {}).get("status") or {}
            if obj is None or status.get("seen", {}).get("generation") != obj["metadata"]["generation"]:
                return None
            if condition(obj, "Ready")["status"] != "True" or (version and status.get("version") != version):
                return None
            return obj

        return await eventually(reached, within, what=f"{name} is ready {version}")  # type: ignore[return-value]

    async def status(self, name: str, predicate: Callable[[Object], object], *, within: float = PATIENCE) -> Object:
        """Wait until the package's status fulfils ``predicate``; return the object."""

        async def reached() -> Object | None:
            obj = await self.object(name)
            return obj if obj and obj.get("status") and predicate(obj["status"]) else None

        return await eventually(reached, within, what=f"status of {name}")  # type: ignore[return-value]

    async def gone(self, name: str, *, within: float = PATIENCE) -> None:
        """Wait until the package's object does not exist any more."""

        async def reached() -> bool:
            return await self.object(name) is None

        await eventually(reached, within, what=f"{name} is gone")

    async def release(self, name: str) -> dict[int, str]:
        """Return the stored revisions of the package's Helm release and their status."""
        key = self.key(name)
        found = await self.kube.list(
            "v1",
            "Secret",
            namespace=key.home,
            label_selector=f"owner=helm,name={release_name(key)}",
            metadata_only=True,
        )
        labels = [item["metadata"]["labels"] for item in found.items]
        return {int(label["version"]): label["status"] for label in labels}

    # -- workflows ---------------------------------------------------------------------------------------------------

    def action(self, why: str = "test") -> Action:
        """Return an action given by the tests."""
        return Action(who="tests", why=why)

    async def history(self, name: str) -> WorkflowHistory:
        """Fetch the history of the lifecycle's newest run."""
        return await self.client.get_workflow_handle(package_workflow_id(self.key(name))).fetch_history()

    async def chain(self, name: str) -> list[WorkflowHistory]:
        """Fetch the histories of the lifecycle's newest run and of those that handed over to it, newest first."""
        found = [await self.history(name)]
        while before := _begun(found[-1]).continued_execution_run_id:
            handle = self.client.get_workflow_handle(package_workflow_id(self.key(name)), run_id=before)
            found.append(await handle.fetch_history())
        return found


@asynccontextmanager
async def installed(stack: Stack, folder: Path, **environ: str) -> AsyncIterator[Installation]:
    """Make an installation with a namespace of its own; stop its processes and release its objects at the end."""
    name = f"t{uuid.uuid4().hex[:6]}"
    keyring = Keyring.load_or_create(folder / "keyring.yaml")
    digest_key = DigestKey.load_or_create(folder / "digest-key")
    target = TemporalTarget(address=stack.temporal_address)
    client = await connect(target, keyring=keyring, role="tests")
    async with KubeClient.from_kubeconfig(stack.kubeconfig, qps=500, burst=1000, user_agent="tests") as kube:
        await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        installation = Installation(
            stack=stack,
            folder=folder,
            kube=kube,
            client=client,
            lifecycles=PackageLifecycles(client, installation=name),
            name=name,
            namespace=name,
            keyring=keyring,
            digest_key=digest_key,
            environ=environ,
        )
        try:
            yield installation
        finally:
            if installation.process is not None:
                installation.kill()
            await _sweep(installation)


def _begun(history: WorkflowHistory) -> WorkflowExecutionStartedEventAttributes:
    return history.events[0].workflow_execution_started_event_attributes


async def _sweep(installation: Installation) -> None:
    """Take everything of the installation away so that the next one does not see it."""
    kube = installation.kube
    mine = f"{INSTALLATION_LABEL}={installation.name}"
    applications = await kube.list(API_VERSION, "Application", namespace=installation.namespace)
    modules = await kube.list(API_VERSION, "Module", label_selector=mine)
    names = [(item, item["metadata"]["name"]) for item in applications.items]
    names += [(item, f"module/{item['metadata']['name']}") for item in modules.items]
    for item, name in names:
        ref = installation.package_ref(name)
        others = [one for one in item["metadata"].get("finalizers") or [] if one != FINALIZER]
        await kube.patch(ref, {"metadata": {"finalizers": others}}, kind="merge")
        await kube.delete(ref)
    await kube.delete(ObjectRef(api_version=API_VERSION, kind="PackageRepository", name=f"repo-{installation.name}"))
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=installation.namespace))
    running = [
        asyncio.ensure_future(installation.client.get_workflow_handle(id_).terminate("end of test"))
        for id_ in await installation.lifecycles.running()
    ]
    await asyncio.gather(*running, return_exceptions=True)


def condition(obj: Object, type_: str) -> Object:
    """Return one condition of an object; status Unknown if it has none."""
    conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == type_), {"status": "Unknown", "reason": "", "message": ""})


# -- packages for tests ----------------------------------------------------------------------------------------------


def write_package(
    repository: Path,
    name: str,
    version: str,
    *,
    templates: dict[str, str] | None = None,
    values: Object | None = None,
    settings: Object | None = None,
    hooks: dict[str, str] | None = None,
    extra: dict[str, str] | None = None,
    kind: Kind = Kind.APPLICATION,
) -> Path:
    """Write a package folder: templates and hooks by file name, schemas as objects."""
    root = repository / name / version
    files: dict[str, str] = {
        "package.yaml": yaml.safe_dump({"name": name, "version": version, "type": kind.value}),
        "Chart.yaml": yaml.safe_dump({"apiVersion": "v2", "name": name, "version": version}),
        **{f"templates/{file}": text for file, text in (templates or {}).items()},
        **{f"hooks/{file}": text for file, text in (hooks or {}).items()},
        **(extra or {}),
    }
    if values is not None:
        files["values.yaml"] = yaml.safe_dump(values)
    if settings is not None:
        files["openapi/settings.yaml"] = yaml.safe_dump({"type": "object", "properties": settings})
    for file, text in files.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if file.startswith("hooks/"):
            path.chmod(0o755)
    return root


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  version: {{ .Chart.Version | quote }}
  greeting: {{ .Values.greeting | quote }}
"""
"""The smallest chart: one ConfigMap named like the release."""

GREETING = {"greeting": {"type": "string", "default": "hello", "maxLength": 20}}

ROLLOUT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name | replace "." "-" }}
spec:
  selector:
    matchLabels: {app: {{ .Release.Name }}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations: {windlass.dev/stage: {{ if .Values.stuck }}stuck{{ else }}fine{{ end }}}
    spec:
      containers: [{name: main, image: example.invalid/none}]
"""
"""A Deployment whose pods, with `stuck: true`, never become ready."""

STUCK = {"stuck": {"type": "boolean", "default": False}}


def write_greeter(repository: Path, *versions: str, **more: Any) -> None:
    """Write versions of a package ``greeter`` whose ConfigMap shows version and greeting."""
    for version in versions:
        write_package(repository, "greeter", version, templates={"config.yaml": CONFIG_MAP}, settings=GREETING, **more)
