"""The watch of one package: its bindings' views, the informers behind them, and the mailboxes before its queues."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import uuid4

from windlass.contracts.lifecycle import HookEvents
from windlass.contracts.record import BindingRecord, WatchedRecord
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.bindings import Change, Selection, binding_id
from windlass.domain.hooks.events import Entry, event_context
from windlass.domain.hooks.mailbox import Batch, Item, Mailbox
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Hook
from windlass.observers.border import Border
from windlass.observers.hooks.informers import Delta, Informers
from windlass.observers.hooks.views import Bound, View
from windlass.ports.jq import Jq
from windlass.ports.kube import ListWatch, ResourceInfo
from windlass.ports.watches import BeginAhead, EventRun

OPEN_LIMIT: Final = 20.0
"""Seconds for the first lists of a package's bindings."""

REPORTS_KEPT: Final = 10
"""Reports that wait to be told; of many alike, people need to see one."""

type Resources = Callable[[str, str], Awaitable[ResourceInfo | None]]
type Ring = Callable[[PackageKey, HookEvents], None]


@dataclass
class _Box:
    """One queue: its mailbox, and whether a signal is on its way or a run under way that will look again.

    ``begin``, if there is one, begins the next run at once, ahead of the signal.
    """

    mailbox: Mailbox = field(default_factory=Mailbox)
    reports: list[str] = field(default_factory=list[str])
    signalled: bool = False
    begin: BeginAhead | None = None

    @property
    def waits(self) -> bool:
        return len(self.mailbox) > 0 or bool(self.reports)


class OpenWatch:
    """`ports.PackageWatch`; see there.

    Args:
        key: the package.
        watched: its bindings, and how far the hooks have been told of them.
        kube: lists and watches with the hooks' rights.
        jq: runs filters.
        ring: sends a signal.
        namespace: of the package's target.
        border: keeps what fails from everybody else.
    """

    def __init__(
        self,
        key: PackageKey,
        watched: WatchedRecord,
        *,
        kube: ListWatch,
        jq: Jq,
        ring: Ring,
        namespace: str,
        border: Border,
    ) -> None:
        self._namespace = namespace
        spawn = partial(border.spawn, key)
        self.digest = watched.digest
        self._key = key
        self._ring = ring
        self._hooks = {hook.path: hook for hook in watched.hooks}
        self._informers = Informers(kube, spawn)
        self._sequence = 0
        self._quiet = True
        self._held = 0.0
        self._ahead: set[asyncio.Task[Any]] = set()
        self._boxes: dict[str, _Box] = {}
        self._views: dict[str, View] = {}
        for hook in watched.hooks:
            for index, binding in enumerate(hook.kubernetes):
                bound = Bound(id=binding_id(hook.path, index), hook=hook.path, binding=binding)
                self._boxes.setdefault(binding.queue, _Box())
                self._views[bound.id] = View(bound, jq, self, watched.bindings.get(bound.id), spawn)

    # -- opening and closing -------------------------------------------------------------------------------------------

    async def open(self, resources: Resources) -> None:
        """Begin to follow the objects, and wait until all that exist are known.

        Raises:
            PermanentError: FORBIDDEN, or a kind that cannot be watched; names hook and binding.
            TransientError: a kind is not served (yet), or the API server does not answer.
        """
        for view in self._views.values():
            if not view.synchronized:
                self._put(view, None)
        try:
            async with asyncio.timeout(OPEN_LIMIT):
                for view in self._views.values():
                    with _attributed(view):
                        await self._follow(view, resources)
                for view in self._views.values():
                    with _attributed(view):
                        await view.opened()
        except TimeoutError:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the objects that hooks of {self._key.package_id} watch were not listed within {OPEN_LIMIT:g} s",
                hint="see whether the API server is overloaded",
            ) from None
        self._quiet = False

    async def close(self) -> None:
        """Stop following; what waits is dropped, and what has begun ahead is ended."""
        self._quiet = True
        self.abandon()
        await asyncio.gather(*self._ahead, return_exceptions=True)
        await self._informers.close()
        await asyncio.gather(*(view.close() for view in self._views.values()))

    async def _follow(self, view: View, resources: Resources) -> None:
        binding = view.bound.binding
        info = await resources(binding.api_version, binding.kind)
        if info is None:
            version = f" in {binding.api_version}" if binding.api_version else ""
            raise TransientError(
                Reason.API_REJECTED,
                f"the API server serves no kind {binding.kind!r}{version}",
                hint="install what brings it, or correct the binding",
            )
        if not info.namespaced:
            self._follow_in(view, info, "")
        elif binding.namespaces or not binding.namespace_labels:
            for namespace in binding.namespaces or (self._own_namespace,):
                self._follow_in(view, info, namespace)
        if info.namespaced and binding.namespace_labels:
            labelled = Selection(api_version="v1", kind="Namespace", label_selector=binding.namespace_labels)
            self._informers.follow(labelled, _Namespaces(self, view, info, labelled))
        else:
            view.settle()

    @property
    def _own_namespace(self) -> str:
        # The author of an Application cannot know its namespace, and its hooks have rights nowhere else.
        return "" if self._key.cluster_wide else self._namespace

    def _follow_in(self, view: View, info: ResourceInfo, namespace: str) -> None:
        for selection in view.bound.binding.selections(info.api_version, info.kind, (namespace,)):
            if selection not in view.selections:
                self._informers.follow(selection, view.feed(selection))

    def leave(self, view: View, namespace: str) -> None:
        """Take note that ``namespace`` is not selected any more: its objects are."""
        for selection in view.selections:
            if selection.namespace == namespace and namespace not in view.bound.binding.namespaces:
                self._informers.leave(selection, view.drop(selection))

    def enter(self, view: View, info: ResourceInfo, namespace: str) -> None:
        """Follow the objects of one more namespace."""
        self._follow_in(view, info, namespace)

    # -- what views tell -----------------------------------------------------------------------------------------------

    def changed(self, view: View, change: Change, entry: Entry) -> None:
        """Put an event into the mailbox of the view's queue."""
        self._put(view, change, entry)

    def report(self, view: View, text: str) -> None:
        """Keep a text for people until the next run of the view's queue."""
        queue = view.bound.binding.queue
        reports = self._boxes[queue].reports
        whole = f"{view.bound.hook}, binding {view.bound.binding.name}: {text}"
        if whole not in reports and len(reports) < REPORTS_KEPT:
            reports.append(whole)
        self._signal(queue)

    def failing(self, view: View) -> None:
        """Let the queue's next run tell that a watch does not work, or works again."""
        if not self._quiet:
            queue = view.bound.binding.queue
            self._boxes[queue].signalled = True
            self._ring(self._key, HookEvents(queue=queue, sequence=self._sequence, broken=True))

    def _put(self, view: View, change: Change | None, entry: Entry | None = None) -> None:
        self._sequence += 1
        binding = view.bound.binding
        item = Item(
            sequence=self._sequence,
            hook=view.bound.hook,
            binding=view.bound.id,
            group=binding.group,
            change=change,
            key=entry.key if entry else "",
            told=entry.told if entry else None,
        )
        self._boxes[binding.queue].mailbox.put(item)
        self._signal(binding.queue)

    def _signal(self, queue: str) -> None:
        """Signal once; nothing more until a run has emptied the mailbox."""
        box = self._boxes[queue]
        if box.signalled or self._quiet:
            return
        box.signalled = True
        self._ring(self._key, HookEvents(queue=queue, sequence=self._sequence, run=self._begun(box)))

    def _begun(self, box: _Box) -> str:
        """Begin a run ahead of the signal if that is allowed; return its id."""
        if box.begin is None:
            return ""
        run_id = str(uuid4())
        task, box.begin = box.begin(run_id), None
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)
        return run_id

    def allow(self, queue: str, begin: BeginAhead, *, since: float) -> None:
        """Let the next run of ``queue`` begin ahead; see `ports.HookWatches`."""
        box = self._boxes.get(queue)
        if box is not None and not box.signalled and not self._quiet and since > self._held:
            box.begin = begin

    def hold(self, *, since: float) -> None:
        """Take back what was allowed; see `ports.HookWatches`."""
        self._held = max(self._held, since)
        for box in self._boxes.values():
            box.begin = None

    def abandon(self) -> None:
        """Begin nothing ahead any more, and end what has begun: the package is another process's now, or soon."""
        self.hold(since=math.inf)
        for task in self._ahead:
            task.cancel()

    # -- what runs ask -------------------------------------------------------------------------------------------------

    def waiting(self) -> tuple[str, ...]:
        """Return the queues in which something waits; see `ports.PackageWatch`."""
        return tuple(sorted(queue for queue in self._boxes if self.waits(queue)))

    def waits(self, queue: str) -> bool:
        """Say whether something waits in ``queue``; see `ports.PackageWatch`."""
        box = self._boxes.get(queue)
        if box is None or not box.waits:
            return False
        box.signalled = True
        return True

    def announce(self) -> None:
        """Signal every queue in which something waits and that nobody has been told of."""
        for queue, box in self._boxes.items():
            if box.waits:
                self._signal(queue)

    def unsynchronized(self) -> int:
        """Return how many Synchronizations the first release still waits for."""
        return sum(view.bound.binding.waited and not view.synchronized for view in self._views.values())

    def take(self, queue: str) -> EventRun | None:
        """Return what the next run of ``queue`` is about; see `ports.PackageWatch`."""
        box = self._boxes.get(queue)
        if box is None:
            return None
        for view in self._views.values():
            if view.bound.binding.queue == queue and isinstance(view.error, PermanentError):
                with _attributed(view):
                    raise view.error
        batch = box.mailbox.take()
        if batch is None:
            return None
        synchronizing = box.mailbox.synchronizing()
        objects = {id_: self._views[id_].synchronize() for id_ in synchronizing}
        for id_ in synchronizing:
            box.mailbox.supersede(id_)
        return EventRun(
            hook=self._hooks[batch.hook],
            context=self._context(batch, objects),
            items=len(batch.taken),
            allow_failure=self._views[batch.taken[0].binding].bound.binding.allow_failure,
        )

    def after(self, queue: str) -> dict[str, BindingRecord]:
        """Return what the hooks will have been told when the run of ``queue`` is done."""
        records: dict[str, BindingRecord] = {}
        for id_, view in self._views.items():
            mailbox = self._boxes[view.bound.binding.queue].mailbox
            mine = view.bound.binding.queue == queue
            waiting = mailbox.waiting(id_, running=not mine)
            synchronized = view.synchronized or (mine and id_ in mailbox.synchronizing())
            records[id_] = view.record(waiting, synchronized=synchronized)
        return records

    def done(self, queue: str) -> bool:
        """Drop what the run of ``queue`` was about; say whether more waits."""
        box = self._boxes.get(queue)
        if box is None:
            return False
        for id_ in box.mailbox.synchronizing():
            self._views[id_].synchronized = True
        box.mailbox.done()
        box.signalled = box.waits
        return box.waits

    def reports(self, queue: str) -> tuple[str, ...]:
        """Return, once, what people should know of this queue's watches."""
        box = self._boxes.get(queue)
        if box is None:
            return ()
        reports, box.reports = tuple(box.reports), []
        return reports

    def follows(self, hook: Hook) -> bool:
        """Say whether this is the watch of this very hook."""
        return self._hooks.get(hook.path) == hook

    def snapshots(self, hook: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the objects of every binding of a hook, by the bindings' names."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for view in self._views.values():
            if view.bound.hook == hook:
                found.setdefault(view.bound.binding.name, []).extend(view.snapshot())
        return found

    def _context(self, batch: Batch, objects: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
        bindings = {item.binding: self._views[item.binding].bound.binding for item in batch.told}
        named = {name for binding in bindings.values() for name in binding.snapshots_from}
        snapshots: dict[str, list[Mapping[str, Any]]] = {}
        for view in self._views.values():
            if view.bound.hook == batch.hook and view.bound.binding.name in named:
                snapshots.setdefault(view.bound.binding.name, []).extend(view.snapshot())
        return event_context(batch.told, bindings, objects, snapshots)


class _Namespaces:
    """Follows the namespaces that a binding selects by their labels."""

    def __init__(self, watch: OpenWatch, view: View, info: ResourceInfo, selection: Selection) -> None:
        self._watch = watch
        self._view = view
        self._info = info
        self._selection = selection

    def heard(self, delta: Delta) -> None:
        name = delta.key.removeprefix("/")
        if delta.gone:
            self._watch.leave(self._view, name)
        else:
            self._watch.enter(self._view, self._info, name)

    def complete(self) -> None:
        self._view.settle()

    def failing(self, error: WindlassError | None) -> None:
        self._view.fail(self._selection, error)


@contextmanager
def _attributed(view: View) -> Generator[None]:
    """Give errors of a view's watch the names of its hook and binding."""
    where = f"{view.bound.hook}, binding {view.bound.binding.name}"
    try:
        yield
    except PermanentError as error:
        hint = error.hint or "grant the hooks' role what they watch, or correct the binding"
        raise PermanentError(error.reason, f"{where}: {error.message}", hint=hint, actor=Actor.ADMIN) from None
    except TransientError as error:
        raise TransientError(error.reason, f"{where}: {error.message}", hint=error.hint) from None
