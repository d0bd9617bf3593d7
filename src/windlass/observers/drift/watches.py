"""Watches over the metadata of objects that Helm manages, shared by the packages that have such objects.

Which watches there are is decided by `windlass.domain.drift.watching`. A watch that is refused is given up for the next
way and tried again with growing pauses: a missing role or account costs nothing while it is missing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from windlass.adapters.helm.presence import MANAGED
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.drift.watching import LISTED, KindOf, Limits, Scope, Why, ways
from windlass.domain.errors import PermanentError, Reason, WindlassError
from windlass.domain.ids import PackageKey
from windlass.domain.target import Account, Target
from windlass.observers.border import Border
from windlass.observers.drift.owners import Owners, kind_of
from windlass.observers.drift.pacing import paced
from windlass.observers.drift.package import pause_after
from windlass.ports.kube import Object, ObjectRef
from windlass.ports.targets import Role, Targets

type Group = tuple[KindOf, str]
"""A kind and a namespace; packages are followed by these."""

_log = structlog.stdlib.get_logger(__name__)


@dataclass
class _Watch:
    """One watch: who needs it, whether it has been listed, and how often in a row it was refused."""

    task: asyncio.Task[None] | None = None
    users: set[PackageKey] = field(default_factory=set[PackageKey])
    listed: bool = False
    refusals: int = 0


@dataclass
class _Follower:
    """One package: its account, and for each group of its objects the watch, or why there is none."""

    account: Account
    groups: dict[Group, Scope | Why]
    wanted: set[Scope] = field(default_factory=set[Scope])


class MetadataWatches:
    """Reports what is gone and what may have changed; says nothing of what is in an object.

    Only objects that a package has are remembered: a cluster may hold many times as many. What a watch sees leads to
    nothing but a comparison as the package's account, which shows the package what this account may read.

    Args:
        targets: watches are made as the reader and as accounts of packages.
        border: runs the watches.
        owners: say which objects matter.
        limits: how many watches, and which kinds the reader watches beside the usual ones.
        on_gone: called with an object that was deleted, or that Helm's label was taken off.
        on_changed: called with an object that may have changed in more than its status.
        on_moved: called with a package of which other objects are watched than before.
    """

    def __init__(
        self,
        targets: Targets,
        border: Border,
        owners: Owners,
        limits: Limits,
        *,
        on_gone: Callable[[ObjectRef], None],
        on_changed: Callable[[ObjectRef], None],
        on_moved: Callable[[PackageKey], None],
    ) -> None:
        self._targets = targets
        self._border = border
        self._owners = owners
        self._limits = limits
        self._listed = LISTED | limits.kinds
        self._on_gone = on_gone
        self._on_changed = on_changed
        self._on_moved = on_moved
        self._watches: dict[Scope, _Watch] = {}
        self._each: Counter[Account] = Counter()
        self._followers: dict[PackageKey, _Follower] = {}
        self._marks: dict[ObjectRef, str] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def scopes(self) -> frozenset[Scope]:
        """What is being watched, or tried to."""
        return frozenset(self._watches)

    def follow(self, key: PackageKey, account: Account, refs: Iterable[ObjectRef]) -> None:
        """Watch these objects for a package, and no others.

        Nobody waits for a first list. What changes between a comparison and that list is noticed by the mark that the
        comparison left (`read`).
        """
        groups: dict[Group, Scope | Why] = dict.fromkeys(((kind_of(ref), ref.namespace) for ref in refs), Why.LIMIT)
        follower = self._followers.get(key)
        if follower is None:
            follower = self._followers[key] = _Follower(account=account, groups={})
        follower.account, follower.groups = account, groups
        self._choose(key, follower)

    def unfollow(self, key: PackageKey) -> None:
        """Watch nothing for a package any more."""
        follower = self._followers.pop(key, None)
        if follower is not None:
            self._release(key, follower.wanted)

    def unwatched(self, key: PackageKey) -> Mapping[Group, Why]:
        """Return which groups of a package's objects are not watched, and why."""
        follower = self._followers.get(key)
        groups = follower.groups if follower else {}
        return {group: how for group, how in groups.items() if isinstance(how, Why)}

    def forget(self, refs: Iterable[ObjectRef]) -> None:
        """Forget objects that no package has any more."""
        for ref in refs:
            self._marks.pop(ref, None)

    async def close(self) -> None:
        """Stop watching; nothing uses the clients of accounts afterwards."""
        for key in list(self._followers):
            self.unfollow(key)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def read(self, ref: ObjectRef, obj: Object) -> None:
        """Take note of the state in which an object was read, unless a watch has told of one."""
        if ref in self._owners:
            self._marks.setdefault(ref, _mark(obj))

    def mark(self, ref: ObjectRef) -> str:
        """Return what tells this state of an object from others, empty if it is not there."""
        return self._marks.get(ref, "")

    # -- which watches -------------------------------------------------------------------------------------------------

    def _choose(self, key: PackageKey, follower: _Follower) -> None:
        """Give each group of a package the first way that works or has not been refused yet."""
        wanted: set[Scope] = set()
        for group in follower.groups:
            kind, namespace = group
            chosen: Scope | Why = Why.LIMIT
            for scope in ways(kind, namespace, follower.account, self._listed):
                watch = self._watches.get(scope) or self._opened(scope)
                if watch is None:
                    chosen = Why.LIMIT
                    break
                watch.users.add(key)
                wanted.add(scope)
                chosen = Why.REFUSED if watch.refusals else scope
                if not watch.refusals:
                    break
            follower.groups[group] = chosen
        left, follower.wanted = follower.wanted - wanted, wanted
        self._release(key, left)

    def _opened(self, scope: Scope) -> _Watch | None:
        """Begin a watch; None if there are as many as there may be."""
        if scope.account is not None:
            if self._each.total() >= self._limits.watches or self._each[scope.account] >= self._limits.each:
                return None
            self._each[scope.account] += 1
        watch = self._watches[scope] = _Watch()
        watch.task = self._border.spawn_shared("drift-watch", partial(self._run, scope, watch))
        return watch

    def _release(self, key: PackageKey, scopes: Iterable[Scope]) -> None:
        """End the watches that nobody but this package has used."""
        for scope in scopes:
            watch = self._watches[scope]
            watch.users.discard(key)
            if watch.users:
                continue
            del self._watches[scope]
            if scope.account is not None:
                self._each[scope.account] -= 1
                if not self._each[scope.account]:
                    del self._each[scope.account]
            if watch.task is not None:
                watch.task.cancel()
                self._ending.add(watch.task)
                watch.task.add_done_callback(self._ending.discard)

    def _reconsider(self, watch: _Watch) -> None:
        """Choose anew for the packages of a watch that is refused now, or works again."""
        for key in list(watch.users):
            follower = self._followers.get(key)
            if follower is None:
                continue
            before = dict(follower.groups)
            self._choose(key, follower)
            if before != follower.groups:
                self._on_moved(key)

    # -- watching ------------------------------------------------------------------------------------------------------

    async def _run(self, scope: Scope, watch: _Watch) -> None:
        while True:
            try:
                await self._follow(scope, watch)
            except WindlassError as error:
                if not _refuses(error):
                    raise
                watch.refusals += 1
                watch.listed = False
                log = _log.warning if watch.refusals == 1 else _log.debug
                log(
                    "watch refused",
                    kind=scope.kind,
                    namespace=scope.namespace,
                    account=str(scope.who),
                    reason=error.reason.value,
                    error=str(error),
                )
                self._reconsider(watch)
            await asyncio.sleep(pause_after(watch.refusals))

    async def _follow(self, scope: Scope, watch: _Watch) -> None:
        """Watch until it is refused.

        Raises:
            WindlassError: it is refused, or there is no client.
        """
        kind = (scope.api_version, scope.kind)

        def told(error: WindlassError) -> None:
            if _refuses(error):
                raise error
            _log.warning("watch interrupted", kind=kind[1], reason=error.reason.value, error=str(error))

        target = Target(account=scope.who, namespace=scope.namespace or scope.who.namespace)
        async with self._targets.acting(target) as acting:
            kube = await acting.kube(Role.DRIFT)
            stream = list_and_watch(
                kube,
                *kind,
                namespace=scope.namespace,
                label_selector=MANAGED,
                metadata_only=True,
                on_error=told,
            )
            async for event in stream:
                if isinstance(event, Listed):
                    await self._take_list(scope, watch, event.items)
                elif event.type == "DELETED":
                    ref = _ref(kind, event.object)
                    self._marks.pop(ref, None)
                    if ref in self._owners:
                        self._on_gone(ref)
                elif event.type != "BOOKMARK":
                    self._take(watch, _ref(kind, event.object), event.object)

    async def _take_list(self, scope: Scope, watch: _Watch, items: list[Object]) -> None:
        kind = (scope.api_version, scope.kind)
        known = self._owners.objects(kind)
        missing = {ref for ref in known if ref.namespace == scope.namespace} if scope.namespace else known
        async for item in paced(items):
            ref = _ref(kind, item)
            missing.discard(ref)
            self._take(watch, ref, item)
        watch.listed = True
        if watch.refusals:
            watch.refusals = 0
            self._reconsider(watch)
        async for ref in paced(missing):
            self._marks.pop(ref, None)
            self._on_gone(ref)

    def _take(self, watch: _Watch, ref: ObjectRef, obj: Object) -> None:
        if ref not in self._owners:
            return
        mark = _mark(obj)
        before = self._marks.get(ref)
        self._marks[ref] = mark
        # An object without a mark has not been compared yet, or has been made again.
        if before != mark and (before is not None or watch.listed):
            self._on_changed(ref)


def _refuses(error: WindlassError) -> bool:
    """Say whether an error is about rights, accounts or kinds, and not about a moment of the API server."""
    return isinstance(error, PermanentError) or error.reason in {Reason.IDENTITY_MISSING, Reason.API_REJECTED}


def _ref(kind: KindOf, obj: Object) -> ObjectRef:
    metadata = obj["metadata"]
    return ObjectRef(
        api_version=kind[0], kind=kind[1], namespace=metadata.get("namespace") or "", name=metadata["name"]
    )


def _mark(obj: Object) -> str:
    """Return what moves with every change but that of a status, as far as the API server tells.

    Kinds without a generation move with every write; labels and annotations move no generation.
    """
    metadata = obj["metadata"]
    version = metadata.get("generation") or metadata["resourceVersion"]
    told = json.dumps([version, metadata.get("uid"), metadata.get("labels"), metadata.get("annotations")])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
