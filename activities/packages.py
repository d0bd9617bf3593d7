"""Steps that concern the package itself: finalizer, content and settings."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from windlass.activities.content import VALUES_ROOT, Content, Contents, State
from windlass.activities.discovery import HookDiscovery
from windlass.activities.heartbeat import heartbeating
from windlass.activities.inputs import read_inputs
from windlass.activities.observe import object_ref
from windlass.activities.repositories import repository_for
from windlass.contracts.steps import (
    DownloadRequest,
    DownloadResult,
    FinalizerRequest,
    InstallRequest,
    LoadRequest,
    LoadResult,
    RecordResult,
    SettingsRequest,
    SettingsResult,
)
from windlass.domain.definition import check_kind
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import FINALIZER, record_name
from windlass.domain.lifecycle import Loaded
from windlass.domain.schema import raise_if_invalid, validate
from windlass.domain.values import check_settings
from windlass.ports.kube import Kube
from windlass.ports.packages import Packages


class PackageActivities:
    """Everything a lifecycle does besides Helm, hook runs and status."""

    def __init__(
        self,
        *,
        kube: Kube,
        packages: Packages,
        discovery: HookDiscovery,
        contents: Contents,
        digest_key: bytes,
    ) -> None:
        self._kube = kube
        self._packages = packages
        self._discovery = discovery
        self._contents = contents
        self._digest_key = digest_key

    @activity.defn(name="package.add_finalizer")
    async def add_finalizer(self, request: FinalizerRequest) -> None:
        """Put the finalizer on the object of this uid."""
        obj = await self._kube.get(object_ref(request.key))
        if obj is None or obj["metadata"]["uid"] != request.uid:
            raise TransientError(Reason.API_CONFLICT, f"{object_ref(request.key)} was replaced by another object")
        finalizers: list[str] = obj["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            await self._patch_finalizers(request, obj, [*finalizers, FINALIZER])

    @activity.defn(name="package.release_finalizer")
    async def release_finalizer(self, request: FinalizerRequest) -> None:
        """Take the finalizer off the object of this uid; another object of the same name is left alone."""
        obj = await self._kube.get(object_ref(request.key))
        if obj is None or obj["metadata"]["uid"] != request.uid:
            return
        finalizers: list[str] = obj["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            await self._patch_finalizers(request, obj, [name for name in finalizers if name != FINALIZER])

    @activity.defn(name="package.download")
    async def download(self, request: DownloadRequest) -> DownloadResult:
        """Pin the version by its content and fetch that into the cache."""
        async with heartbeating() as beat:
            repository = await repository_for(self._kube, request.source)
            beat.details = f"resolving {request.source}"
            artifact = await self._packages.resolve(repository, request.source)
            beat.details = f"fetching {artifact.digest}"
            await self._packages.ensure(repository, artifact)
        return DownloadResult(artifact=artifact)

    @activity.defn(name="package.install")
    async def install(self, request: InstallRequest) -> RecordResult:
        """Switch the package to the content, and write down that this is its content now."""
        await self._contents.ensure(request.artifact)
        await self._packages.install(request.key.package_id, request.artifact.digest)
        state = await self._contents.state(request.key, request.uid, request.record)
        record = state.record.model_copy(update={"artifact": request.artifact})
        if state.record.artifact != request.artifact:
            # Patches are values that the old version's hooks worked out: the new version's hooks run anew.
            record = record.model_copy(update={"patches": (), "config_patches": (), "watched": None})
        return RecordResult(record=(await self._contents.save(request.key, state, record)).ref)

    @activity.defn(name="package.load")
    async def load(self, request: LoadRequest) -> LoadResult:
        """Read the package and ask its hooks for their bindings."""
        content = await self._contents.ensure(request.artifact)
        check_kind(content.package.definition, request.key.kind)
        hooks = await self._discovery.hooks_of(content, request.artifact.digest)
        return LoadResult(loaded=Loaded(artifact=request.artifact, hooks=hooks))

    @activity.defn(name="package.apply_settings")
    async def apply_settings(self, request: SettingsRequest) -> SettingsResult:
        """Validate the newest settings, or bring a good release's back; only valid ones replace the applied ones."""
        if request.restore:
            return await self._restore_settings(request)
        inputs = await read_inputs(self._kube, request.key)
        if inputs is None or inputs.object.metadata.uid != request.uid:
            raise TransientError(Reason.API_CONFLICT, f"{object_ref(request.key)} was replaced by another object")
        content = await self._contents.ensure(request.artifact)
        settings = inputs.settings()
        state = await self._contents.state(request.key, request.uid, request.record)
        raise_if_invalid(check_settings(content.schemas, settings, concealed=inputs.concealed()))
        digest = inputs.settings_digest(self._digest_key)
        applied = {"settings": settings, "settings_digest": digest}
        return await self._applied(request, content, state, applied)

    async def _restore_settings(self, request: SettingsRequest) -> SettingsResult:
        """Apply the settings and hook patches of a good release.

        Raises:
            PermanentError: REVISION_LOST, the state Secret does not hold them (any more).
        """
        content = await self._contents.ensure(request.artifact)
        state = await self._contents.state(request.key, request.uid, request.record)
        good = state.record.revision(request.restore)
        if good is None:
            raise PermanentError(
                Reason.REVISION_LOST,
                f"the state Secret {record_name(request.key)} in {request.key.target_namespace} does not hold the "
                f"settings of the good release of version {request.artifact.exact}",
                hint="order `rollback --to` another revision, or change the object to what shall run",
                actor=Actor.USER,
            )
        restored = {
            "settings": good.settings,
            "settings_digest": good.settings_digest,
            "patches": good.patches,
            "config_patches": good.config_patches,
        }
        return await self._applied(request, content, state, restored)

    async def _applied(
        self, request: SettingsRequest, content: Content, state: State, applied: dict[str, Any]
    ) -> SettingsResult:
        """Store what is applied, unless the values that follow from it are not valid."""
        values = self._contents.values(content, state.record.model_copy(update=applied))
        if content.schemas.values is not None:
            found = validate(values, content.schemas.values, root=VALUES_ROOT, concealed=values)
            raise_if_invalid(found, what="values that follow from the settings")
        saved = await self._contents.update(
            request.key, request.uid, state.ref, lambda record: record.model_copy(update=applied)
        )
        values = self._contents.values(content, saved.record)
        return SettingsResult(
            settings=saved.record.settings_digest, values=self._contents.digest(values), record=saved.ref
        )

    async def _patch_finalizers(self, request: FinalizerRequest, obj: dict[str, Any], wanted: list[str]) -> None:
        # The resourceVersion pins the very object that was read; another writer in between is a conflict, tried again.
        patch = {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"], "finalizers": wanted}}
        await self._kube.patch(object_ref(request.key), patch, kind="merge")
