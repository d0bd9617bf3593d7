"""`ports.Helm`: observe the stored release, decide (`domain.lifecycle.releases`), heal, run one operation, tidy up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self
from weakref import WeakValueDictionary

from windlass.adapters.helm import manifest, presence, refusals, staging
from windlass.adapters.helm.manifest import Entry
from windlass.adapters.helm.operations import Operations
from windlass.adapters.helm.ownership import Observed, Ownership
from windlass.adapters.helm.pool import ChildPool
from windlass.adapters.helm.process import environment
from windlass.adapters.helm.program import HelmProgram
from windlass.adapters.helm.record import Record
from windlass.adapters.helm.shares import Shares
from windlass.adapters.helm.storage import Storage
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.domain.lifecycle import releases
from windlass.domain.lifecycle.releases import Heal, Operation, Plan, Revision
from windlass.ports.helm import Ledger, Manifest, Release, ReleaseOutcome, ReleaseRef, ReleaseRequest, Told
from windlass.ports.kube import Kube, ObjectRef
from windlass.ports.targets import Acting, Role, Targets

POOL_SIZE: Final = 4

WRITE_DOWN_SECONDS: Final = 2.0
"""What writing down the record of a failed or cancelled operation may take; without it that record is not read."""

MADE_AGAIN: Final = "made again"

_API_KINDS: Final = frozenset({"CustomResourceDefinition", "APIService"})
_ACTIONS: Final[dict[Operation, Literal["installed", "upgraded", "unchanged"]]] = {
    Operation.NONE: "unchanged",
    Operation.INSTALL: "installed",
    Operation.REINSTALL: "installed",
    Operation.UPGRADE: "upgraded",
}


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
        self._ownership = Ownership()
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
            newest = await self._newest(cluster, ref)
        return None if newest is None else _release(ref, newest)

    async def manifest(self, ref: ReleaseRef, ledger: Ledger | None = None) -> Manifest | None:
        """Return the newest stored revision with its objects, or None; see `ports.Helm`."""
        async with self._cluster(ref) as cluster:
            newest = await self._newest(cluster, ref, ledger)
            if newest is None:
                return None
            found = await asyncio.to_thread(manifest.documents, newest.manifest)
            refs = await manifest.locate([manifest.entry(obj) for obj in found], ref.namespace, cluster.kube)
        objects = {at: presence.marked(manifest.placed(obj, at), ref) for at, obj in zip(refs, found, strict=True)}
        return Manifest(release=_release(ref, newest), objects=objects)

    async def _newest(self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger | None = None) -> Record | None:
        while history := await cluster.storage.history(ref):
            number = history[-1].number
            if ledger is None:
                newest = await cluster.storage.read(ref, number)
            else:
                newest = await self._ownership.trusted(cluster.storage, ref, ledger, number)
                if newest is None and await cluster.storage.secret(ref, number) is not None:
                    raise PermanentError(
                        Reason.RELEASE_FOREIGN,
                        f"somebody else wrote revision {number} of {ref}",
                        hint="see the condition HelmApplied",
                    )
            if newest is not None:
                return newest
            # Deleted between the two requests: look again.
        return None

    async def render(self, request: ReleaseRequest, *, upgrade: bool = False) -> str:
        """Return the manifest the request would apply; the cluster is read (``lookup``, API versions), not changed.

        ``upgrade`` is what templates see as ``.Release.IsUpgrade``; ``.Release.Revision`` is always 1.

        Raises:
            TransientError, PermanentError: as `upgrade`.
        """
        async with self._cluster(request.ref) as cluster:
            try:
                return await self._operations.render(request, cluster.kubeconfig, upgrade=upgrade)
            except PermanentError as error:
                # Helm looks whether the objects of an install exist, which the account may not be allowed to.
                if error.reason is not Reason.FORBIDDEN:
                    raise
                raise await self._explained(cluster, request, error, f"rendering of {request.ref}") from None

    async def outline(self, request: ReleaseRequest) -> str:
        """Return a manifest for a look at which objects there are; see `Operations.outline`."""
        async with self._targets.acting(request.ref.target) as acting:
            return await self._operations.outline(request, acting.kubeconfig.absolute())

    @asynccontextmanager
    async def _cluster(self, ref: ReleaseRef) -> AsyncGenerator[_Cluster]:
        async with self._targets.acting(ref.target) as acting:
            kube = await acting.kube(Role.HELM)
            try:
                yield _Cluster(acting=acting, kube=kube, storage=Storage(kube))
            except PermanentError as error:
                if error.reason is not Reason.FORBIDDEN or ref.target.whom in error.message:
                    raise
                told = f"{ref.target.whom} {error.message}"
                raise PermanentError(Reason.FORBIDDEN, told, hint=error.hint, actor=error.actor) from None

    async def _observe_after(
        self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, before: Observed, made: Record | None
    ) -> tuple[tuple[Revision, ...], Record | None]:
        """Return history and newest record after an operation that ``made`` a revision.

        If all was well before, there is nothing else to look for, which takes no list.
        """
        last = before.history[-1] if before.history else Revision(number=0, status=releases.DEPLOYED)
        well = last.status == releases.DEPLOYED and not releases.unswept(before.history) and not before.unfinished
        if well and made is not None and made.status == releases.DEPLOYED:
            return (*before.history, Revision(number=made.revision, status=made.status)), made
        found = await cluster.storage.history(ref)
        mine = tuple(one for one in found if ledger.known.digest_of(one.number))
        return mine, made

    async def _locate(self, cluster: _Cluster, ref: ReleaseRef, entries: Iterable[Entry]) -> tuple[ObjectRef, ...]:
        return await manifest.locate(entries, ref.namespace, cluster.kube)

    # -- installing and upgrading ----------------------------------------------------------------------------------

    async def upgrade(self, request: ReleaseRequest, ledger: Ledger) -> ReleaseOutcome:
        """Install or upgrade, healing first, and only if something differs; see `ports.Helm`.

        ``outcome.healed`` says in words what was found and done. A killed operation leaves at most a pending record,
        which the next call unlocks; objects that only an unfinished revision had made are deleted after the next
        success.
        """
        ref = request.ref
        async with self._lock(ref), self._cluster(ref) as cluster:
            observed = await self._ownership.observe(cluster.storage, ref, ledger, owner=request.owner, wanted=request)
            if request.create_namespace and not observed.history:
                await cluster.acting.ensure_namespace()
            left = await self._forgotten(cluster, ref, ledger, observed, request.digest)
            plan = await self._plan(cluster, request, observed)
            healed = await self._heal(cluster, ref, ledger, observed, plan.heal)
            if plan.operation is Operation.REINSTALL:
                await self._make_room(cluster, request, observed.history)
            history, newest = observed.history, observed.newest
            if plan.operation is not Operation.NONE:
                number = 1 if healed or not history else history[-1].number + 1
                made = await self._apply(cluster, request, ledger, plan.operation, number)
                history, newest = await self._observe_after(cluster, ref, ledger, observed, made)
            if newest is None:
                raise TransientError(
                    Reason.APPLY_MANIFESTS_FAILED,
                    f"{ref} vanished right after it was applied",
                    hint="it is tried again; check whether something else deletes it",
                )
            await self._delete_left(cluster, ref, newest, left)
            return await self._settle(cluster, request, ledger, history, newest, plan)

    async def _forgotten(
        self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, observed: Observed, digest: str
    ) -> tuple[Entry, ...]:
        """Drop the record of an interrupted operation unread; return the objects that it may have made.

        These are read from what our own chart renders to. Of what is applied again anyhow (``digest``) there are none.
        """
        if not observed.unfinished:
            return ()
        await cluster.storage.drop(ref, observed.unfinished)
        began = await ledger.unfinished()
        if began is None or began.digest == digest:
            return ()
        with contextlib.suppress(WindlassError):
            text = await self._operations.render(began, cluster.kubeconfig, upgrade=bool(observed.history))
            return await asyncio.to_thread(manifest.parse, text)
        return ()

    async def _apply(
        self, cluster: _Cluster, request: ReleaseRequest, ledger: Ledger, operation: Operation, number: int
    ) -> Record | None:
        """Run one operation that makes revision ``number``; note that before, and the digest of its record after."""
        storage, ref = cluster.storage, request.ref
        await ledger.note(ledger.known.noting(number))
        applied = False
        try:
            await self._operations.apply(request, operation, cluster.kubeconfig)
            applied = True
            return await self._ownership.write_down(storage, ref, ledger, number)
        except BaseException as error:
            # Also when it is cancelled, whatever it was doing: the next attempt goes by the record of this one.
            with contextlib.suppress(WindlassError, TimeoutError):
                async with asyncio.timeout(WRITE_DOWN_SECONDS):
                    await self._ownership.write_down(storage, ref, ledger, number)
            if not applied and isinstance(error, PermanentError) and error.reason is Reason.FORBIDDEN:
                with contextlib.suppress(WindlassError):
                    await self._undo(cluster, ref, ledger, number)
                verb = "upgrade" if operation is Operation.UPGRADE else "install"
                raise await self._explained(cluster, request, error, f"Helm {verb} of {ref}") from None
            raise

    async def _explained(
        self, cluster: _Cluster, request: ReleaseRequest, error: PermanentError, what: str
    ) -> PermanentError:
        """Return the refusal with all that is forbidden, not the first object only."""
        return await refusals.explained(error, request, self._operations, cluster.kube, cluster.kubeconfig, what=what)

    async def _undo(self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, number: int) -> None:
        """Delete what a refused attempt has created, and its record if there never was a working release.

        What is left if this fails too is deleted after the next success.
        """
        newest = await self._ownership.trusted(cluster.storage, ref, ledger, number)
        if newest is None or newest.status == releases.DEPLOYED:
            return
        history = await cluster.storage.history(ref)
        working = [one for one in history if one.status == releases.DEPLOYED and one.number < number]
        deployed = await self._ownership.trusted(cluster.storage, ref, ledger, working[-1].number) if working else None
        if working and deployed is None:
            return
        current = set(await self._locate(cluster, ref, deployed.entries)) if deployed else set[ObjectRef]()
        made = await self._locate(cluster, ref, [entry for entry in newest.entries if not entry.kept])
        await presence.delete_leftovers([one for one in made if one not in current], ref, cluster.kube)
        if deployed is not None:
            await cluster.storage.mark_swept(ref, newest.revision)
        elif len(history) == 1:
            await cluster.storage.drop(ref, newest.revision)

    async def _plan(self, cluster: _Cluster, request: ReleaseRequest, observed: Observed) -> Plan:
        newest = observed.newest
        if observed.unfinished:
            found = releases.plan(observed.history, up_to_date=False, absent=())
            return replace(found, why=f"revision {observed.unfinished} was interrupted: {MADE_AGAIN}")
        if newest is None or newest.status != releases.DEPLOYED or newest.applied != request.digest:
            return releases.plan(observed.history, up_to_date=False, absent=())
        absent = await presence.absent(await self._locate(cluster, request.ref, newest.entries), cluster.kube)
        return releases.plan(observed.history, up_to_date=True, absent=[str(ref) for ref in absent])

    async def _heal(self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, observed: Observed, heal: Heal) -> bool:
        """Make the release such that Helm can work on it; return whether all its records are gone with that."""
        match heal:
            case Heal.NOTHING:
                return False
            case Heal.UNLOCK:
                await cluster.storage.unlock(ref, observed.history[-1])
                return False
            case Heal.FINISH_UNINSTALL:
                await self._remove(cluster, ref, ledger, observed)
                return True

    async def _make_room(self, cluster: _Cluster, request: ReleaseRequest, history: Sequence[Revision]) -> None:
        # Only Helm's upgrade bounds the history; an install that fails again and again would let it grow for ever.
        for revision in releases.surplus(history, request.history_max):
            await cluster.storage.drop(request.ref, revision.number)

    async def _settle(
        self,
        cluster: _Cluster,
        request: ReleaseRequest,
        ledger: Ledger,
        history: Sequence[Revision],
        newest: Record,
        plan: Plan,
    ) -> ReleaseOutcome:
        ref = request.ref
        if plan.operation is not Operation.NONE:
            self._note_new_kinds(newest, request.chart)
        for revision in releases.unswept(history):
            await self._delete_beyond(cluster, ref, ledger, newest, [revision])
            await cluster.storage.mark_swept(ref, revision.number)
        again = plan.why.endswith(MADE_AGAIN)
        return ReleaseOutcome(
            release=_release(ref, newest),
            action=_ACTIONS[plan.operation],
            healed=plan.why if again or plan.heal is not Heal.NOTHING else "",
            objects=await self._locate(cluster, ref, newest.entries),
        )

    def _note_new_kinds(self, record: Record, chart: Path | None = None) -> None:
        in_folder = chart is not None and (chart / "crds").is_dir()
        if in_folder or any(entry.kind in _API_KINDS for entry in record.entries):
            self._operations.api_changed()

    async def _delete_beyond(
        self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, newest: Record, revisions: Sequence[Revision]
    ) -> None:
        """Delete what older revisions name and the newest does not."""
        for revision in revisions:
            record = await self._ownership.trusted(cluster.storage, ref, ledger, revision.number)
            await self._delete_left(cluster, ref, newest, () if record is None else record.entries)

    async def _delete_left(self, cluster: _Cluster, ref: ReleaseRef, newest: Record, entries: Sequence[Entry]) -> None:
        """Delete those of ``entries`` that the newest revision does not name."""
        if not entries:
            return
        current = set(await self._locate(cluster, ref, newest.entries))
        old = await self._locate(cluster, ref, [entry for entry in entries if not entry.kept])
        await presence.delete_leftovers([one for one in old if one not in current], ref, cluster.kube)

    # -- uninstalling ----------------------------------------------------------------------------------------------

    async def uninstall(
        self, ref: ReleaseRef, ledger: Ledger, *, owner: str, told: Told | None = None
    ) -> tuple[ObjectRef, ...]:
        """Delete the release and what unfinished revisions left; return the objects to wait for.

        Objects that the chart tells Helm to keep are not among them. Absent is fine. See `ports.Helm` for ``told``.

        Raises:
            TransientError, PermanentError: with Helm's text.
        """
        async with self._lock(ref), self._cluster(ref) as cluster:
            observed = await self._ownership.observe(cluster.storage, ref, ledger, owner=owner)
            if observed.ignored:
                return ()
            left = await self._forgotten(cluster, ref, ledger, observed, "")
            named = (*(observed.newest.entries if observed.newest else ()), *left)
            if told is not None and named:
                await told(tuple(dict.fromkeys(await self._locate(cluster, ref, named))))
            gone = await self._locate(cluster, ref, [entry for entry in left if not entry.kept])
            await presence.delete_leftovers(gone, ref, cluster.kube)
            return tuple(dict.fromkeys((*await self._remove(cluster, ref, ledger, observed), *gone)))

    async def _remove(
        self, cluster: _Cluster, ref: ReleaseRef, ledger: Ledger, observed: Observed
    ) -> tuple[ObjectRef, ...]:
        newest = observed.newest
        if newest is None:
            return ()
        refs = await self._locate(cluster, ref, [entry for entry in newest.entries if not entry.kept])
        # Before the uninstall, because that drops the records that say what there is to delete.
        await self._delete_beyond(cluster, ref, ledger, newest, releases.created_by(observed.history))
        await self._operations.uninstall(ref, cluster.kubeconfig, has_hooks=newest.has_hooks)
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
        owner=record.owner,
        chart=record.chart,
        chart_version=record.chart_version,
    )
