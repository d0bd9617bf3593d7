"""`ports.Helm`: observe the stored release, decide (`domain.lifecycle.releases`), heal, run one operation, tidy up."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
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
from windlass.adapters.helm.storage import Storage
from windlass.domain.errors import Reason, TransientError
from windlass.domain.lifecycle import releases
from windlass.domain.lifecycle.releases import Heal, Operation, Plan, Revision
from windlass.ports.helm import Manifest, Release, ReleaseOutcome, ReleaseRef, ReleaseRequest, Told
from windlass.ports.kube import Kube, ObjectRef

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


class HelmClient:
    """Helm releases. An async context manager; enter it on the event loop that uses it.

    Args:
        kube: reads release records and looks for objects; give it a client with a rate limit of its own.
        kubeconfig: file for Helm itself.
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
        kube: Kube,
        kubeconfig: Path,
        helm: Path,
        scratch: Path,
        pool_size: int = POOL_SIZE,
        qps: float = 50.0,
        burst: int = 100,
    ) -> None:
        scratch = scratch.absolute()
        env = {**environment(scratch, os.environ), "HELM_QPS": f"{qps:g}", "HELM_BURST_LIMIT": str(burst)}
        self._kube = kube
        self._scratch = scratch
        self._storage = Storage(kube)
        self._pool = ChildPool(pool_size, env)
        self._operations = Operations(
            pool=self._pool,
            program=HelmProgram(helm.absolute(), kubeconfig.absolute(), env),
            kubeconfig=kubeconfig.absolute(),
            scratch=scratch,
        )
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
        observed = await self._observe(ref)
        return None if observed.newest is None else _release(ref, observed.newest)

    async def manifest(self, ref: ReleaseRef) -> Manifest | None:
        """Return the newest stored revision with its objects, or None."""
        newest = (await self._observe(ref)).newest
        if newest is None:
            return None
        found = await asyncio.to_thread(manifest.documents, newest.manifest)
        refs = await self._locate(ref, [manifest.entry(obj) for obj in found])
        objects = {at: presence.marked(manifest.placed(obj, at), ref) for at, obj in zip(refs, found, strict=True)}
        return Manifest(release=_release(ref, newest), objects=objects)

    async def render(self, request: ReleaseRequest, *, upgrade: bool = False) -> str:
        """Return the manifest the request would apply; the cluster is read (``lookup``, API versions), not changed.

        ``upgrade`` is what templates see as ``.Release.IsUpgrade``; ``.Release.Revision`` is always 1.

        Raises:
            TransientError, PermanentError: as `upgrade`.
        """
        return await self._operations.render(request, upgrade=upgrade)

    async def _observe(self, ref: ReleaseRef) -> _Observed:
        while history := await self._storage.history(ref):
            newest = await self._storage.read(ref, history[-1].number)
            if newest is not None:
                return _Observed(history=history, newest=newest)
            # Deleted between the two requests: look again.
        return _Observed(history=(), newest=None)

    async def _observe_after(self, ref: ReleaseRef, before: _Observed) -> _Observed:
        """Observe after an operation: if all was well before, the very next revision is there, which takes no list."""
        last = before.history[-1] if before.history else Revision(number=0, status=releases.DEPLOYED)
        if last.status != releases.DEPLOYED or releases.unswept(before.history):
            return await self._observe(ref)  # it was healed, or there are leftovers to look for
        number = last.number + 1
        newest = await self._storage.read(ref, number)
        if newest is None or newest.status != releases.DEPLOYED:
            return await self._observe(ref)
        return _Observed(history=(*before.history, Revision(number=number, status=newest.status)), newest=newest)

    async def _locate(self, ref: ReleaseRef, entries: Iterable[Entry]) -> tuple[ObjectRef, ...]:
        return await manifest.locate(entries, ref.namespace, self._kube)

    # -- installing and upgrading ----------------------------------------------------------------------------------

    async def upgrade(self, request: ReleaseRequest) -> ReleaseOutcome:
        """Install or upgrade, healing first, and only if something differs; see `ports.Helm`.

        ``outcome.healed`` says in words what was found and done. A killed operation leaves at most a pending record,
        which the next call unlocks; objects that only an unfinished revision had made are deleted after the next
        success.
        """
        async with self._lock(request.ref):
            observed = await self._observe(request.ref)
            plan = await self._plan(request, observed)
            await self._heal(request.ref, observed, plan.heal)
            if plan.operation is Operation.REINSTALL:
                await self._make_room(request, observed.history)
            if plan.operation is not Operation.NONE:
                await self._operations.apply(request, plan.operation)
                observed = await self._observe_after(request.ref, observed)
            if observed.newest is None:
                raise TransientError(
                    Reason.APPLY_MANIFESTS_FAILED,
                    f"{request.ref} vanished right after it was applied",
                    hint="it is tried again; check whether something else deletes it",
                )
            return await self._settle(request, observed.history, observed.newest, plan)

    async def _plan(self, request: ReleaseRequest, observed: _Observed) -> Plan:
        newest = observed.newest
        if newest is None or newest.status != releases.DEPLOYED or newest.applied != request.digest:
            return releases.plan(observed.history, up_to_date=False, absent=())
        absent = await presence.absent(await self._locate(request.ref, newest.entries), self._kube)
        return releases.plan(observed.history, up_to_date=True, absent=[str(ref) for ref in absent])

    async def _heal(self, ref: ReleaseRef, observed: _Observed, heal: Heal) -> None:
        match heal:
            case Heal.NOTHING:
                return
            case Heal.UNLOCK:
                await self._storage.unlock(ref, observed.history[-1])
            case Heal.FINISH_UNINSTALL:
                await self._remove(ref, observed)

    async def _make_room(self, request: ReleaseRequest, history: Sequence[Revision]) -> None:
        # Only Helm's upgrade bounds the history; an install that fails again and again would let it grow for ever.
        for revision in releases.surplus(history, request.history_max):
            await self._storage.drop(request.ref, revision.number)

    async def _settle(
        self, request: ReleaseRequest, history: Sequence[Revision], newest: Record, plan: Plan
    ) -> ReleaseOutcome:
        ref = request.ref
        if plan.operation is not Operation.NONE:
            self._note_new_kinds(newest, request.chart)
        for revision in releases.unswept(history):
            await self._delete_beyond(ref, newest, [revision])
            await self._storage.mark_swept(ref, revision.number)
        return ReleaseOutcome(
            release=_release(ref, newest),
            action=_ACTIONS[plan.operation],
            healed="" if plan.heal is Heal.NOTHING else plan.why,
            objects=await self._locate(ref, newest.entries),
        )

    def _note_new_kinds(self, record: Record, chart: Path | None = None) -> None:
        in_folder = chart is not None and (chart / "crds").is_dir()
        if in_folder or any(entry.kind in _API_KINDS for entry in record.entries):
            self._operations.api_changed()

    async def _delete_beyond(self, ref: ReleaseRef, newest: Record, revisions: Sequence[Revision]) -> None:
        """Delete what older revisions name and the newest does not."""
        current = set(await self._locate(ref, newest.entries))
        for revision in revisions:
            record = await self._storage.read(ref, revision.number)
            entries = () if record is None else [entry for entry in record.entries if not entry.kept]
            leftovers = [old for old in await self._locate(ref, entries) if old not in current]
            await presence.delete_leftovers(leftovers, ref, self._kube)

    # -- uninstalling ----------------------------------------------------------------------------------------------

    async def uninstall(self, ref: ReleaseRef, *, told: Told | None = None) -> tuple[ObjectRef, ...]:
        """Delete the release and what unfinished revisions left; return the objects to wait for.

        Objects that the chart tells Helm to keep are not among them. Absent is fine. See `ports.Helm` for ``told``.

        Raises:
            TransientError, PermanentError: with Helm's text.
        """
        async with self._lock(ref):
            observed = await self._observe(ref)
            if told is not None and observed.newest is not None:
                await told(await self._locate(ref, observed.newest.entries))
            return await self._remove(ref, observed)

    async def _remove(self, ref: ReleaseRef, observed: _Observed) -> tuple[ObjectRef, ...]:
        newest = observed.newest
        if newest is None:
            return ()
        refs = await self._locate(ref, [entry for entry in newest.entries if not entry.kept])
        # Before the uninstall, because that drops the records that say what there is to delete.
        await self._delete_beyond(ref, newest, releases.created_by(observed.history))
        await self._operations.uninstall(ref, has_hooks=newest.has_hooks)
        self._note_new_kinds(newest)
        return refs

    def _lock(self, ref: ReleaseRef) -> asyncio.Lock:
        """Return the lock that keeps our own operations on one release apart; it lives while somebody holds it."""
        return self._locks.setdefault(ref, asyncio.Lock())


def _release(ref: ReleaseRef, record: Record) -> Release:
    return Release(
        ref=ref,
        revision=record.revision,
        status=record.status,
        applied=record.applied,
        chart=record.chart,
        chart_version=record.chart_version,
    )
