"""`ports.Helm`: observe the stored release, decide (`domain.lifecycle.releases`), heal, run one operation, tidy up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self
from weakref import WeakValueDictionary

from windlass.adapters.helm import manifest, presence, staging
from windlass.adapters.helm.manifest import Entry
from windlass.adapters.helm.operations import Operations
from windlass.adapters.helm.pool import ChildPool
from windlass.adapters.helm.process import environment
from windlass.adapters.helm.program import HelmProgram
from windlass.adapters.helm.record import Record
from windlass.adapters.helm.shares import Shares
from windlass.adapters.helm.storage import Storage
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.lifecycle import releases
from windlass.domain.lifecycle.releases import Heal, Operation, Plan, Revision
from windlass.ports.helm import Manifest, Release, ReleaseOutcome, ReleaseRef, ReleaseRequest, Told
from windlass.ports.kube import Kube, ObjectRef
from windlass.ports.targets import Acting, Role, Targets

POOL_SIZE: Final = 4

_API_KINDS: Final = frozenset({"CustomResourceDefinition", "APIService"})
_ACTIONS: Final[dict[Operation, Literal["installed", "upgraded", "unchanged"]]] = {
    Operation.NONE: "unchanged",
    Operation.INSTALL: "installed",
    Operation.REINSTALL: "installed",
    Operation.UPGRADE: "upgraded",
}


@dataclass(frozen=True, kw_only=True)
class _Observed:
    """The stored release: all revisions, oldest first, and the newest one decoded."""

    history: tuple[Revision, ...]
    newest: Record | None


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """The cluster of a release, as its target's identity."""

    acting: Acting
    kube: Kube
    storage: Storage

    @property
    def kubeconfig(self) -> Path:
        """For Helm itself."""
        return self.acting.kubeconfig.absolute()


class HelmClient:
    """Helm releases. An async context manager; enter it on the event loop that uses it.

    Args:
        targets: release records and objects are read and written as the identity of the release's target.
        helm: the ``helm`` program (4.2 or newer).
        scratch: folder that only this client uses, for short-lived files and Helm's caches; made if it is missing.
        pool_size: warm child processes, each with about 50 MB of its own; with 0 it can only read and render.
        qps: requests a second that each process of the ``helm`` program may send to the API server. The library in the
            warm children has a rate of its own that cannot be set (`windlass.adapters.helm.child`).
        burst: requests that such a process may send at once.
    """

    def __init__(
        self,
        *,
        targets: Targets,
        helm: Path,
        scratch: Path,
        pool_size: int = POOL_SIZE,
        qps: float = 50.0,
        burst: int = 100,
    ) -> None:
        scratch = scratch.absolute()
        env = {**environment(scratch, os.environ), "HELM_QPS": f"{qps:g}", "HELM_BURST_LIMIT": str(burst)}
        self._targets = targets
        self._scratch = scratch
        self._pool = ChildPool(pool_size, env)
        program = HelmProgram(helm.absolute(), env)
        self._operations = Operations(pool=self._pool, program=program, scratch=scratch, shares=Shares(pool_size))
        self._locks: WeakValueDictionary[ReleaseRef, asyncio.Lock] = WeakValueDictionary()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._scratch.glob(f"{staging.PREFIX}*"):  # by a client that was killed
            shutil.rmtree(left)
        await self._stack.enter_async_context(self._pool)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def busy_children(self) -> tuple[int, ...]:
        """Process ids of the warm children that work now."""
        return self._pool.busy

    # -- observing -------------------------------------------------------------------------------------------------

    async def release(self, ref: ReleaseRef) -> Release | None:
        """Return the newest stored revision, or None."""
        async with self._cluster(ref) as cluster:
            observed = await self._observe(cluster, ref)
        return None if observed.newest is None else _release(ref, observed.newest)

    async def manifest(self, ref: ReleaseRef) -> Manifest | None:
        """Return the newest stored revision with its objects, or None."""
        async with self._cluster(ref) as cluster:
            newest = (await self._observe(cluster, ref)).newest
            if newest is None:
                return None
            found = await asyncio.to_thread(manifest.documents, newest.manifest)
            refs = await manifest.locate([manifest.entry(obj) for obj in found], ref.namespace, cluster.kube)
        objects = {at: presence.marked(manifest.placed(obj, at), ref) for at, obj in zip(refs, found, strict=True)}
        return Manifest(release=_release(ref, newest), objects=objects)

    async def render(self, request: ReleaseRequest, *, upgrade: bool = False) -> str:
        """Return the manifest the request would apply; the cluster is read (``lookup``, API versions), not changed.

        ``upgrade`` is what templates see as ``.Release.IsUpgrade``; ``.Release.Revision`` is always 1.

        Raises:
            TransientError, PermanentError: as `upgrade`.
        """
        async with self._cluster(request.ref) as cluster:
            return await self._operations.render(request, cluster.kubeconfig, upgrade=upgrade)

    @asynccontextmanager
    async def _cluster(self, ref: ReleaseRef) -> AsyncGenerator[_Cluster]:
        async with self._targets.acting(ref.target) as acting:
            kube = await acting.kube(Role.HELM)
            yield _Cluster(acting=acting, kube=kube, storage=Storage(kube))

    async def _observe(self, cluster: _Cluster, ref: ReleaseRef) -> _Observed:
        while history := await cluster.storage.history(ref):
            newest = await cluster.storage.read(ref, history[-1].number)
            if newest is not None:
                return _Observed(history=history, newest=newest)
            # Deleted between the two requests: look again.
        return _Observed(history=(), newest=None)

    async def _observe_after(self, cluster: _Cluster, ref: ReleaseRef, before: _Observed) -> _Observed:
        """Observe after an operation: if all was well before, the very next revision is there, which takes no list."""
        last = before.history[-1] if before.history else Revision(number=0, status=releases.DEPLOYED)
        if last.status != releases.DEPLOYED or releases.unswept(before.history):
            return await self._observe(cluster, ref)  # it was healed, or there are leftovers to look for
        number = last.number + 1
        newest = await cluster.storage.read(ref, number)
        if newest is None or newest.status != releases.DEPLOYED:
            return await self._observe(cluster, ref)
        return _Observed(history=(*before.history, Revision(number=number, status=newest.status)), newest=newest)

    async def _locate(self, cluster: _Cluster, ref: ReleaseRef, entries: Iterable[Entry]) -> tuple[ObjectRef, ...]:
        return await manifest.locate(entries, ref.namespace, cluster.kube)

    # -- installing and upgrading ----------------------------------------------------------------------------------

    async def upgrade(self, request: ReleaseRequest) -> ReleaseOutcome:
        """Install or upgrade, healing first, and only if something differs; see `ports.Helm`.

        ``outcome.healed`` says in words what was found and done. A killed operation leaves at most a pending record,
        which the next call unlocks; objects that only an unfinished revision had made are deleted after the next
        success.
        """
        async with self._lock(request.ref), self._cluster(request.ref) as cluster:
            observed = await self._observe(cluster, request.ref)
            _check_owner(request.ref, observed, request.owner)
            if request.create_namespace and not observed.history:
                await cluster.acting.ensure_namespace()
            plan = await self._plan(cluster, request, observed)
            await self._heal(cluster, request.ref, observed, plan.heal)
            if plan.operation is Operation.REINSTALL:
                await self._make_room(cluster, request, observed.history)
            if plan.operation is not Operation.NONE:
                await self._apply(cluster, request, plan.operation)
                observed = await self._observe_after(cluster, request.ref, observed)
            if observed.newest is None:
                raise TransientError(
                    Reason.APPLY_MANIFESTS_FAILED,
                    f"{request.ref} vanished right after it was applied",
                    hint="it is tried again; check whether something else deletes it",
                )
            return await self._settle(cluster, request, observed.history, observed.newest, plan)

    async def _apply(self, cluster: _Cluster, request: ReleaseRequest, operation: Operation) -> None:
        try:
            await self._operations.apply(request, operation, cluster.kubeconfig)
        except PermanentError as error:
            if error.reason is Reason.FORBIDDEN:
                with contextlib.suppress(WindlassError):
                    await self._undo(cluster, request.ref)
            raise

    async def _undo(self, cluster: _Cluster, ref: ReleaseRef) -> None:
        """Delete what a refused attempt has created, and its record if there never was a working release.

        What is left if this fails too is deleted after the next success.
        """
        observed = await self._observe(cluster, ref)
        newest = observed.newest
        if newest is None or newest.status == releases.DEPLOYED:
            return
        working = [revision for revision in observed.history if revision.status == releases.DEPLOYED]
        deployed = await cluster.storage.read(ref, working[-1].number) if working else None
        current = set(await self._locate(cluster, ref, deployed.entries)) if deployed else set[ObjectRef]()
        made = await self._locate(cluster, ref, [entry for entry in newest.entries if not entry.kept])
        await presence.delete_leftovers([one for one in made if one not in current], ref, cluster.kube)
        if deployed is not None:
            await cluster.storage.mark_swept(ref, newest.revision)
        elif len(observed.history) == 1:
            await cluster.storage.drop(ref, newest.revision)

    async def _plan(self, cluster: _Cluster, request: ReleaseRequest, observed: _Observed) -> Plan:
        newest = observed.newest
        if newest is None or newest.status != releases.DEPLOYED or newest.applied != request.digest:
            return releases.plan(observed.history, up_to_date=False, absent=())
        absent = await presence.absent(await self._locate(cluster, request.ref, newest.entries), cluster.kube)
        return releases.plan(observed.history, up_to_date=True, absent=[str(ref) for ref in absent])

    async def _heal(self, cluster: _Cluster, ref: ReleaseRef, observed: _Observed, heal: Heal) -> None:
        match heal:
            case Heal.NOTHING:
                return
            case Heal.UNLOCK:
                await cluster.storage.unlock(ref, observed.history[-1])
            case Heal.FINISH_UNINSTALL:
                await self._remove(cluster, ref, observed)

    async def _make_room(self, cluster: _Cluster, request: ReleaseRequest, history: Sequence[Revision]) -> None:
        # Only Helm's upgrade bounds the history; an install that fails again and again would let it grow for ever.
        for revision in releases.surplus(history, request.history_max):
            await cluster.storage.drop(request.ref, revision.number)

    async def _settle(
        self, cluster: _Cluster, request: ReleaseRequest, history: Sequence[Revision], newest: Record, plan: Plan
    ) -> ReleaseOutcome:
        ref = request.ref
        if plan.operation is not Operation.NONE:
            self._note_new_kinds(newest, request.chart)
        for revision in releases.unswept(history):
            await self._delete_beyond(cluster, ref, newest, [revision])
            await cluster.storage.mark_swept(ref, revision.number)
        return ReleaseOutcome(
            release=_release(ref, newest),
            action=_ACTIONS[plan.operation],
            healed="" if plan.heal is Heal.NOTHING else plan.why,
            objects=await self._locate(cluster, ref, newest.entries),
        )

    def _note_new_kinds(self, record: Record, chart: Path | None = None) -> None:
        in_folder = chart is not None and (chart / "crds").is_dir()
        if in_folder or any(entry.kind in _API_KINDS for entry in record.entries):
            self._operations.api_changed()

    async def _delete_beyond(
        self, cluster: _Cluster, ref: ReleaseRef, newest: Record, revisions: Sequence[Revision]
    ) -> None:
        """Delete what older revisions name and the newest does not."""
        current = set(await self._locate(cluster, ref, newest.entries))
        for revision in revisions:
            record = await cluster.storage.read(ref, revision.number)
            entries = () if record is None else [entry for entry in record.entries if not entry.kept]
            leftovers = [old for old in await self._locate(cluster, ref, entries) if old not in current]
            await presence.delete_leftovers(leftovers, ref, cluster.kube)

    # -- uninstalling ----------------------------------------------------------------------------------------------

    async def uninstall(self, ref: ReleaseRef, *, owner: str, told: Told | None = None) -> tuple[ObjectRef, ...]:
        """Delete the release and what unfinished revisions left; return the objects to wait for.

        Objects that the chart tells Helm to keep are not among them. Absent is fine. See `ports.Helm` for ``told``.

        Raises:
            TransientError, PermanentError: with Helm's text.
        """
        async with self._lock(ref), self._cluster(ref) as cluster:
            observed = await self._observe(cluster, ref)
            if _is_of_another(observed, owner):
                return ()
            if told is not None and observed.newest is not None:
                await told(await self._locate(cluster, ref, observed.newest.entries))
            return await self._remove(cluster, ref, observed)

    async def _remove(self, cluster: _Cluster, ref: ReleaseRef, observed: _Observed) -> tuple[ObjectRef, ...]:
        newest = observed.newest
        if newest is None:
            return ()
        refs = await self._locate(cluster, ref, [entry for entry in newest.entries if not entry.kept])
        # Before the uninstall, because that drops the records that say what there is to delete.
        await self._delete_beyond(cluster, ref, newest, releases.created_by(observed.history))
        await self._operations.uninstall(ref, cluster.kubeconfig, has_hooks=newest.has_hooks)
        self._note_new_kinds(newest)
        return refs

    def _lock(self, ref: ReleaseRef) -> asyncio.Lock:
        """Return the lock that keeps our own operations on one release apart; it lives while somebody holds it."""
        return self._locks.setdefault(ref, asyncio.Lock())


def _is_of_another(observed: _Observed, owner: str) -> bool:
    return observed.newest is not None and observed.newest.owner not in {"", owner}


def _check_owner(ref: ReleaseRef, observed: _Observed, owner: str) -> None:
    if observed.newest is not None and _is_of_another(observed, owner):
        raise PermanentError(
            Reason.RELEASE_CONFLICT,
            f"{ref} belongs to {observed.newest.owner}",
            hint="create the object again with another spec.releaseName, or in another namespace",
            actor=Actor.USER,
        )


def _release(ref: ReleaseRef, record: Record) -> Release:
    return Release(
        ref=ref,
        revision=record.revision,
        status=record.status,
        applied=record.applied,
        owner=record.owner,
        chart=record.chart,
        chart_version=record.chart_version,
    )
