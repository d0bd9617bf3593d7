"""`ports.Readiness`: waits by watch. One list first, and no watch at all if everything is there already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from windlass.adapters.kube.following.picture import Picture
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.lifecycle.readiness import (
    ABSENT,
    CURRENT,
    ObjectStatus,
    Progress,
    State,
    status_of,
    summarise,
    waits_for_consumer,
)
from windlass.domain.target import Target
from windlass.ports.kube import Kube, Object, ObjectRef, OnProgress
from windlass.ports.targets import Role, Targets

PROGRESS_SECONDS: Final = 1.0
"""At most one report in so many seconds, and only when something has changed."""

_CLAIM: Final = ("v1", "PersistentVolumeClaim")

type _Verdict = tuple[bool | None, Progress]
"""True and False end a wait; None goes on waiting."""


class KubeReadiness:
    """Waits for objects to be ready, or gone.

    Args:
        kube: of the management cluster, where owners are; with a rate limit of its own.
        targets: objects are watched as the identity of their target.
    """

    def __init__(self, kube: Kube, targets: Targets) -> None:
        self._kube = kube
        self._targets = targets

    async def wait_ready(
        self,
        target: Target,
        refs: Sequence[ObjectRef],
        *,
        deadline: float,
        on_progress: OnProgress,
        owner: ObjectRef | None = None,
        owner_generation: int = 0,
    ) -> bool:
        """Wait until every object is current at one moment; see `ports.Readiness`."""
        async with self._targets.acting(target) as acting:
            kube = await acting.kube(Role.READINESS)
            picture = Picture(kube, refs, metadata_only=False)
            guard = Picture(self._kube, [owner] if owner else [], metadata_only=True)
            bindings = _Bindings(kube)

            async def judge() -> _Verdict:
                statuses = {ref: await _status(ref, picture.get(ref), bindings) for ref in picture.refs}
                progress = _summary(statuses)
                if owner is not None and _superseded(guard.get(owner), owner_generation):
                    return False, progress
                for ref, status in statuses.items():
                    if status.state is State.FAILED:
                        raise _failed(ref, status)
                return (True if progress.remaining == 0 else None), progress

            def late(progress: Progress) -> TransientError:
                return TransientError(
                    Reason.READINESS_TIMEOUT,
                    f"not ready after {deadline:g} s: {_names(progress)}",
                    hint="look at the objects' events, or allow more time",
                )

            return await _wait([picture, guard], judge, late, deadline=deadline, on_progress=on_progress)

    async def wait_gone(
        self, target: Target, refs: Sequence[ObjectRef], *, deadline: float, on_progress: OnProgress
    ) -> None:
        """Wait until none of the objects exists; see `ports.Readiness`."""
        async with self._targets.acting(target) as acting:
            picture = Picture(await acting.kube(Role.READINESS), refs, metadata_only=True)

            async def judge() -> _Verdict:
                progress = _summary({ref: _presence(picture.get(ref)) for ref in picture.refs})
                return (True if progress.remaining == 0 else None), progress

            def late(progress: Progress) -> TransientError:
                return TransientError(
                    Reason.UNINSTALL_FAILED,
                    f"still there after {deadline:g} s: {_names(progress)}",
                    hint="find out why their finalizers are not removed",
                )

            await _wait([picture], judge, late, deadline=deadline, on_progress=on_progress)


async def _wait(
    pictures: Sequence[Picture],
    judge: Callable[[], Awaitable[_Verdict]],
    late: Callable[[Progress], TransientError],
    *,
    deadline: float,
    on_progress: OnProgress,
) -> bool:
    """List, judge, and if that does not settle it watch and judge again on every change."""
    awaited = pictures[0].refs
    progress = Progress(
        completed=0, remaining=len(awaited), waiting_for=tuple(f"{ref}: not looked at yet" for ref in awaited[:5])
    )
    limit = asyncio.timeout(deadline)
    try:
        async with limit:
            await _together([load for picture in pictures for load in picture.loads()])
            verdict, progress = await judge()
            if verdict is not None:
                return verdict
            changed = asyncio.Event()
            report = _Report(on_progress)
            watches = [watch for picture in pictures for watch in picture.watches(changed)]
            async with _background([*watches, report.run()], changed) as check:
                while verdict is None:
                    report.update(progress)
                    await changed.wait()
                    changed.clear()
                    check()
                    verdict, progress = await judge()
            return verdict
    except TimeoutError:
        if not limit.expired():
            raise  # somebody else's, out of on_progress
        raise late(progress) from None


class _Report:
    """Passes on the newest progress, at most once a second; a slow receiver delays nothing."""

    def __init__(self, receiver: OnProgress) -> None:
        self._receiver = receiver
        self._newest: Progress | None = None
        self._changed = asyncio.Event()

    def update(self, progress: Progress) -> None:
        if progress != self._newest:
            self._newest = progress
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._newest is not None:
                await self._receiver(self._newest)
            await asyncio.sleep(PROGRESS_SECONDS)


class _Bindings:
    """Looks up how storage classes bind, once per wait."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._classes: dict[str, Object | None] = {}

    async def deferred(self, claim: Object) -> bool:
        name = str(claim.get("spec", {}).get("storageClassName") or "")
        if name and name not in self._classes:
            ref = ObjectRef(api_version="storage.k8s.io/v1", kind="StorageClass", name=name)
            try:
                self._classes[name] = await self._kube.get(ref)
            except PermanentError:
                self._classes[name] = None  # may not be read: then the claim is awaited until it is bound
        return waits_for_consumer(claim, self._classes.get(name))


async def _status(ref: ObjectRef, obj: Object | None, bindings: _Bindings) -> ObjectStatus:
    if obj is None:
        return ABSENT
    status = status_of(obj)
    if status.state is State.IN_PROGRESS and (ref.api_version, ref.kind) == _CLAIM and await bindings.deferred(obj):
        return CURRENT
    return status


def _presence(obj: Object | None) -> ObjectStatus:
    """Judge an object that should be gone."""
    if obj is None:
        return CURRENT
    if obj["metadata"].get("deletionTimestamp"):
        return status_of(obj)
    return ObjectStatus(state=State.IN_PROGRESS, message="exists and is not being deleted")


def _superseded(owner: Object | None, generation: int) -> bool:
    if owner is None:
        return True
    metadata = cast("Mapping[str, Any]", owner["metadata"])
    return bool(metadata.get("deletionTimestamp")) or int(metadata.get("generation") or 0) > generation


def _failed(ref: ObjectRef, status: ObjectStatus) -> PermanentError:
    return PermanentError(
        Reason.RESOURCE_FAILED,
        f"{ref} has failed: {status.message}",
        hint="look at its events and its pods' logs, then change the settings or the package",
        actor=Actor.AUTHOR,
    )


def _summary(statuses: Mapping[ObjectRef, ObjectStatus]) -> Progress:
    return summarise((f"{ref.kind}/{ref.name}", status) for ref, status in statuses.items())


def _names(progress: Progress) -> str:
    more = progress.remaining - len(progress.waiting_for)
    return "; ".join(progress.waiting_for) + (f"; and {more} more" if more > 0 else "")


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all to the end; on the first error cancel the others and raise it as it is, not in a group."""
    done = asyncio.Event()
    async with _background(work, done) as check:
        while not check():
            await done.wait()
            done.clear()


@asynccontextmanager
async def _background(
    work: Sequence[Coroutine[Any, Any, None]], wake: asyncio.Event
) -> AsyncGenerator[Callable[[], bool]]:
    """Run coroutines beside the body; ``wake`` is set when one ends, and none outlives the body.

    Yields a function that raises the error of one that failed and says whether all have ended.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    for task in tasks:
        task.add_done_callback(lambda _: wake.set())

    def check() -> bool:
        for task in tasks:
            if task.done():
                task.result()
        return all(task.done() for task in tasks)

    try:
        yield check
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
