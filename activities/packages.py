"""Steps that concern the package itself: finalizer, content and settings."""

from __future__ import annotations

import contextlib

from temporalio import activity

from windlass.activities.brief import Briefs
from windlass.activities.content import Contents
from windlass.activities.heartbeat import heartbeating
from windlass.activities.inputs import object_ref
from windlass.activities.openings import Openings
from windlass.activities.package_objects import Mark, PackageObjects
from windlass.activities.references import References
from windlass.activities.repositories import repository_for
from windlass.contracts.objects import parse_package
from windlass.contracts.steps import (
    DownloadRequest,
    DownloadResult,
    FinalizerRequest,
    InstallRequest,
    LoadRequest,
    LoadResult,
    PlaceRequest,
    RecordResult,
)
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.domain.ids import FINALIZER
from windlass.domain.target import Placement
from windlass.ports.kube import Kube, Object
from windlass.ports.packages import Packages
from windlass.ports.targets import Targets


class PackageActivities:
    """Everything a lifecycle does besides Helm, hook runs and status."""

    def __init__(
        self,
        *,
        kube: Kube,
        objects: PackageObjects,
        packages: Packages,
        contents: Contents,
        references: References,
        targets: Targets,
        openings: Openings,
    ) -> None:
        self._kube = kube
        self._objects = objects
        self._packages = packages
        self._contents = contents
        self._references = references
        self._targets = targets
        self._openings = openings
        self._installs = Briefs[RecordResult]()
        self._loads = Briefs[LoadResult]()

    @activity.defn(name="package.add_finalizer")
    async def add_finalizer(self, request: FinalizerRequest) -> None:
        """Put the finalizer on the object of this uid."""

        async def put(mark: Mark) -> Object | None:
            if FINALIZER in mark.finalizers:
                return None
            return await self._patch_finalizers(request, mark, [*mark.finalizers, FINALIZER])

        if not await self._objects.write(request.key, request.uid, put):
            raise TransientError(Reason.API_CONFLICT, f"{object_ref(request.key)} was replaced by another object")

    @activity.defn(name="package.release_finalizer")
    async def release_finalizer(self, request: FinalizerRequest) -> None:
        """Take the finalizer off the object of this uid; another object of the same name is left alone."""

        async def take_off(mark: Mark) -> Object | None:
            if FINALIZER not in mark.finalizers:
                return None
            return await self._patch_finalizers(request, mark, [name for name in mark.finalizers if name != FINALIZER])

        await self._objects.write(request.key, request.uid, take_off)

    @activity.defn(name="package.download")
    async def download(self, request: DownloadRequest) -> DownloadResult:
        """Pin the version by its content and fetch that into the cache."""
        async with heartbeating() as beat:
            repository = await repository_for(self._kube, request.source, request.key.home)
            beat.details = f"resolving {request.source}"
            artifact = await self._packages.resolve(repository, request.source)
            beat.details = f"fetching {artifact.digest}"
            await self._packages.ensure(repository, artifact)
            if request.open:
                beat.details = f"opening {artifact.digest}"
                with contextlib.suppress(WindlassError):  # the step that loads it finds the same, and tells
                    await self._openings.open(request.key, artifact, request.programs)
        return DownloadResult(artifact=artifact)

    @activity.defn(name="package.install")
    async def install(self, request: InstallRequest) -> RecordResult:
        """Switch the package to the content; the settings that are applied to it next are written down with it."""

        async def switch() -> RecordResult:
            if request.open:
                with contextlib.suppress(WindlassError):  # the step that loads it finds the same, and tells
                    await self._openings.open(request.key, request.artifact, request.programs)
            await self._contents.ensure(request.artifact)
            await self._packages.install(request.key.package_id, request.artifact.digest)
            return RecordResult(record=request.record)

        of = (request.key, request.artifact)
        return await self._openings.local_first(self._installs, request, of=of, work=switch) or RecordResult(
            pending=True
        )

    @activity.defn(name="package.place")
    async def place(self, request: PlaceRequest) -> None:
        """See to it that the package can be worked on in its place, or report why it may not be there.

        Raises:
            TransientError, PermanentError: TARGET_REFUSED; as `ports.Targets.acting`.
        """
        async with heartbeating() as beat:
            placement = request.placement or await self._placement(request)
            beat.details = str(placement.target)
            async with self._targets.acting(placement.target) as acting:
                if placement.create_namespace:
                    await acting.ensure_namespace()

    async def _placement(self, request: PlaceRequest) -> Placement:
        obj = await self._kube.get(object_ref(request.key))
        if obj is None or obj["metadata"]["uid"] != request.uid:
            raise TransientError(Reason.API_CONFLICT, f"{object_ref(request.key)} was replaced by another object")
        return self._references.placement(parse_package(request.key.kind, obj))

    @activity.defn(name="package.load")
    async def load(self, request: LoadRequest) -> LoadResult:
        """Read the package and ask its hooks for their bindings."""

        async def read() -> LoadResult:
            return LoadResult(loaded=await self._openings.open(request.key, request.artifact, request.programs))

        of = (request.key, request.artifact)
        return await self._openings.local_first(self._loads, request, of=of, work=read) or LoadResult(pending=True)

    async def _patch_finalizers(self, request: FinalizerRequest, mark: Mark, wanted: list[str]) -> Object | None:
        # The resourceVersion pins the very object that was seen; another writer in between is a conflict.
        patch = {"metadata": {"resourceVersion": mark.resource_version, "finalizers": wanted}}
        return await self._kube.patch(object_ref(request.key), patch, kind="merge")
