"""`Runtime`: the packages of one installation behind the verbs that operators of older package runtimes know.

Reference: deckhouse.md sections 2 to 5 and 8. There, a runtime keeps what is wanted in its memory. Here the object in
the cluster does, and a lifecycle on Temporal brings it about, so an update is a write of that object and outlives
whoever made it. Workers and watchers are processes of their own (`windlass.worker.main`): they are stopped there, and
build tasks from events there. The scheduler of dependencies is not built yet, and neither are schedule hooks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import yaml

from windlass.contracts.lifecycle import StatusView
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import (
    API_VERSION,
    INSTALLATION_LABEL,
    Kind,
    PackageKey,
    package_of,
    package_workflow_prefix,
)
from windlass.domain.packages.model import Artifact, Definition, Values
from windlass.domain.settings.schema import Schemas, raise_if_invalid
from windlass.domain.settings.values import check_settings
from windlass.ports.kube import Kube, ObjectRef
from windlass.runtime.dumps import package_dump
from windlass.runtime.packages import PackageLifecycles

FIELD_MANAGER: Final = "windlass-runtime"
"""Owns the fields that updates write; what others have written of the same object stays."""


@dataclass(frozen=True, kw_only=True)
class App:
    """One application as a controller has received it.

    Attributes:
        name: of the instance.
        namespace: where it is installed; ``default`` if nobody says.
        definition: which package; its name and version count.
        settings: of the user, whole: a key that an update leaves out is taken back.
    """

    name: str
    namespace: str = "default"
    definition: Definition
    settings: Values = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Module:
    """One module as a controller has received it; it lives in namespace ``windlass-system``.

    Attributes:
        name: of the module, which is its package's.
        definition: which package; its name and version count.
        settings: as those of an `App`.
    """

    name: str
    definition: Definition
    settings: Values = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class SettingsCheck:
    """What became of a look at settings; ``message`` says what is wrong with each, empty if all is well."""

    valid: bool
    message: str = ""


class Loaded(Protocol):
    """A package's content that has been read."""

    @property
    def schemas(self) -> Schemas:
        """Its schemas."""
        ...


class Contents(Protocol):
    """Where content is read; `windlass.activities.content.Contents` is one."""

    async def ensure(self, artifact: Artifact) -> Loaded:
        """Return the content, fetching it if it is not at hand.

        Raises:
            WindlassError: it cannot be had.
        """
        ...


class Runtime:
    """The packages of one installation. `windlass.cli.context.Context.runtime` puts one together.

    Args:
        kube: acts as whoever requests the actions.
        lifecycles: of the installation.
        contents: read for `validate_settings`.
        installation: the installation id.
    """

    def __init__(self, *, kube: Kube, lifecycles: PackageLifecycles, contents: Contents, installation: str) -> None:
        self._kube = kube
        self._lifecycles = lifecycles
        self._contents = contents
        self._installation = installation

    async def update_app(self, repository: str, app: App) -> PackageKey:
        """Want this version with these settings; the application is made if it is not there.

        Another version and other settings are taken up each by itself, and what they overtake is cancelled: see the
        scopes in docs/lifecycle.md. Equal ones change nothing.

        Args:
            repository: name of the PackageRepository.
            app: what is wanted.

        Raises:
            PermanentError: the API server does not take it; says which field.
            TransientError: it does not answer, or the namespace is not there.
        """
        key = PackageKey(installation=self._installation, namespace=app.namespace, name=app.name)
        return await self._update(key, repository, app.definition, app.settings)

    async def update_module(self, repository: str, module: Module) -> PackageKey:
        """Want this version of a module with these settings; as `update_app`."""
        key = PackageKey(installation=self._installation, kind=Kind.MODULE, name=module.name)
        return await self._update(key, repository, module.definition, module.settings)

    async def remove_app(self, namespace: str, instance: str) -> None:
        """Remove an application: what runs of it is cancelled, and its release is uninstalled.

        The object stays until all of that has succeeded, and an application of the same name that is made afterwards
        is another one. One that is not there is fine.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, it is another installation's; or it may not be deleted.
        """
        await self._remove(PackageKey(installation=self._installation, namespace=namespace, name=instance))

    async def remove_module(self, name: str) -> None:
        """Remove a module; as `remove_app`."""
        await self._remove(PackageKey(installation=self._installation, kind=Kind.MODULE, name=name))

    async def validate_settings(self, name: str, settings: Values) -> SettingsCheck:
        """Hold settings against the schema of the version that is loaded.

        Valid while nothing is loaded: settings are validated again when they are applied.

        Args:
            name: the package's id, ``<namespace>.<instance>`` or the module's name.
            settings: as a user would give them, before defaults.

        Raises:
            WindlassError: Temporal, a worker or the package's content cannot be reached.
        """
        loaded = await self._loaded(self.key(name))
        if loaded is None:
            return SettingsCheck(valid=True)
        schemas = (await self._contents.ensure(loaded)).schemas
        try:
            raise_if_invalid(check_settings(schemas, settings))
        except PermanentError as error:
            return SettingsCheck(valid=False, message=error.message)
        return SettingsCheck(valid=True)

    async def status(self, name: str) -> StatusView:
        """Ask a package's lifecycle where it stands: phase, step, failure, conditions, actions.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, no lifecycle runs for it.
            TransientError: no worker answers.
        """
        return await self._lifecycles.status(self.key(name))

    async def dump(self) -> bytes:
        """Return a YAML snapshot of all packages: ``apps`` and ``modules`` by id, without values or secrets.

        Packages without a lifecycle (not seen yet, or removed just now) are left out; one that does not answer stands
        there with its error, so that it does not hide the others.
        """
        return _yaml({"apps": await self.dumps(Kind.APPLICATION), "modules": await self.dumps(Kind.MODULE)})

    async def dumps(self, kind: Kind) -> dict[str, dict[str, Any]]:
        """Return the dump of each package of one kind by its id; see `dump`."""
        found: dict[str, dict[str, Any]] = {}
        for package in await self._packages(kind):
            key = package.key(self._installation)
            try:
                found[key.package_id] = package_dump(await self._lifecycles.dump(key), package)
            except PermanentError as error:
                if error.reason is not Reason.PACKAGE_NOT_FOUND:
                    raise
            except TransientError as error:
                found[key.package_id] = {"error": str(error)}
        return found

    def key(self, name: str) -> PackageKey:
        """Return which package has this id.

        Raises:
            PermanentError: VALIDATION_FAILED, no package can have it.
        """
        key = package_of(self._installation, package_workflow_prefix(self._installation) + name)
        if key is None or not key.name or (key.kind is Kind.APPLICATION and not key.namespace) or "." in key.name:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{name!r} is no id of a package",
                hint="write <namespace>.<instance> for an application, <name> for a module",
                actor=Actor.USER,
            )
        return key

    async def _update(self, key: PackageKey, repository: str, definition: Definition, settings: Values) -> PackageKey:
        await self._mine(key)
        metadata: dict[str, Any] = {"name": key.name, "labels": {INSTALLATION_LABEL: self._installation}}
        spec: dict[str, Any] = {
            "package": {"repository": repository, "name": definition.name, "version": definition.version}
        }
        if settings:  # of an empty map in the place of keys that we own the API server makes a null, and refuses that
            spec["settings"] = settings
        await self._kube.apply(
            {
                "apiVersion": API_VERSION,
                "kind": key.kind.value,
                "metadata": metadata | ({"namespace": key.namespace} if key.namespace else {}),
                "spec": spec,
            },
            field_manager=FIELD_MANAGER,
        )
        return key

    async def _remove(self, key: PackageKey) -> None:
        found = await self._mine(key)
        if found is not None:
            await self._kube.delete(_ref(key), uid=found.metadata.uid)

    async def _mine(self, key: PackageKey) -> PackageObject | None:
        """Read a package's object, and make sure that it is not another installation's."""
        obj = await self._kube.get(_ref(key))
        package = parse_package(key.kind, obj) if obj is not None else None
        if package is not None and package.installation != self._installation:
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND,
                f"{key.kind.value} {key.package_id} belongs to installation {package.installation!r}, "
                f"not to {self._installation!r}",
                hint="choose another name, or go through the runtime of that installation",
                actor=Actor.USER,
            )
        return package

    async def _packages(self, kind: Kind) -> list[PackageObject]:
        found = [parse_package(kind, item) for item in (await self._kube.list(API_VERSION, kind.value)).items]
        mine = [one for one in found if one.installation == self._installation]
        return sorted(mine, key=lambda one: (one.metadata.namespace, one.metadata.name))

    async def _loaded(self, key: PackageKey) -> Artifact | None:
        try:
            view = await self._lifecycles.dump(key)
        except PermanentError as error:
            if error.reason is Reason.PACKAGE_NOT_FOUND:
                return None
            raise
        loaded = view.state.progress.loaded
        return loaded.artifact if loaded is not None else None


def _ref(key: PackageKey) -> ObjectRef:
    return ObjectRef(api_version=API_VERSION, kind=key.kind.value, namespace=key.namespace, name=key.name)


def _yaml(document: dict[str, Any]) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
