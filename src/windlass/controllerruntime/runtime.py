"""`ControllerRuntime`: the primary, the secondaries and tertiaries, the queue between them and a custom controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from windlass.controllerruntime import ownership
from windlass.controllerruntime.controller import IController
from windlass.controllerruntime.garbage import Sweep, sweep
from windlass.controllerruntime.informer import Informer
from windlass.controllerruntime.metrics import QueueMeter, QueueMetrics
from windlass.controllerruntime.ownership import Owner
from windlass.controllerruntime.ratelimit import RateLimiter
from windlass.controllerruntime.reasons import (
    MESSAGE_ERR_RESOURCE_EXISTS,
    REASON_ERR_RESOURCE_EXISTS,
    REASON_RESOURCE_SYNCED,
    SYNCED,
    Change,
    message,
)
from windlass.controllerruntime.recorder import EventType, Recorder
from windlass.controllerruntime.running import Parts, Running
from windlass.controllerruntime.secondaries import EntitySecondaries, KubeSecondaries
from windlass.controllerruntime.workers import Workers
from windlass.controllerruntime.workqueue import WorkQueue
from windlass.domain.entities import Operation
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.ports.clock import Clock
from windlass.ports.entities import Document, EntityClient, ExternalClient, Item, Secondaries
from windlass.ports.events import EventLog, EventNote
from windlass.ports.kube import Kube, ObjectRef

CLIENTS_MAX: Final = 4
"""Secondary, and tertiary, entity clients of one controller (contract: NewControllerRuntime)."""

STOP_SECONDS: Final = 15.0

ENTITY_API_VERSION: Final = "nats.io/v1"
"""apiVersion under which Events name a primary: Kubernetes has no such kind, people read it."""

_log: Final = structlog.stdlib.get_logger(__name__)


class ControllerRuntime:
    """The loop of a controller whose primary resources are entities.

    (contract: ControllerRuntime, NewControllerRuntime; frameworks.md section 2.2)

    Primaries say what is wanted; secondaries (Kubernetes objects, entities, resources elsewhere) are made so that it
    comes true; tertiaries are only read, from their informers or clients. Every change of a primary or a secondary
    puts the primary's key onto the work queue; a worker then calls `IController.sync_handler` with it.

    Args:
        name: of the controller, for logs.
        kind: of the primaries, as secondaries name it in their owner annotation.
        primary: the entities that say what is wanted.
        kube: removes Kubernetes secondaries in `sweep`; needed if there are ``secondary_informers``.
        secondary_informers: of Kubernetes objects that the controller makes.
        tertiary_informers: of Kubernetes objects that it only reads.
        secondaries: up to four clients of entities that it makes.
        tertiaries: up to four clients of entities that it only reads.
        external: clients of what is neither; opened at the start, closed at the stop, swept.
        resync: seconds between two looks at every primary.
        events: where `event` sends to; None drops Events.
        event_namespace: namespace of Events about primaries.
        clock: time of Events; needed with ``events``.
        limiter: waits of retries; client-go's default when None.
        sync_timeout: seconds until a start without complete pictures is given up.
        stop_timeout: seconds for keys that are being worked on at a stop; what is not done by then is cancelled. The
            default leaves of a pod's 30 s what `IController.clean` and the last Events take.
        monotonic: seconds for the work queue.
        metrics: where the work queue is measured; prometheus_client's default registry when None.

    Raises:
        PermanentError: VALIDATION_FAILED (actor author), an argument is not as said here; names it.
    """

    def __init__(  # noqa: PLR0913 - the contract's constructor, all keyword but the first three
        self,
        name: str,
        kind: str,
        primary: EntityClient,
        *,
        resync: float,
        kube: Kube | None = None,
        secondary_informers: Sequence[Informer] = (),
        tertiary_informers: Sequence[Informer] = (),
        secondaries: Sequence[EntityClient] = (),
        tertiaries: Sequence[EntityClient] = (),
        external: Sequence[ExternalClient] = (),
        events: EventLog | None = None,
        event_namespace: str = "default",
        clock: Clock | None = None,
        limiter: RateLimiter[str] | None = None,
        sync_timeout: float = 60.0,
        stop_timeout: float = STOP_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        metrics: QueueMetrics | None = None,
    ) -> None:
        _require(bool(name), "name", "is empty")
        _require(bool(kind), "kind", "is empty")
        _require(resync > 0, "resync", f"is {resync:g}, not above 0 seconds")
        for what, clients in (("secondaries", secondaries), ("tertiaries", tertiaries)):
            _require(len(clients) <= CLIENTS_MAX, what, f"has {len(clients)} clients, {CLIENTS_MAX} at most")
        _require(kube is not None or not secondary_informers, "kube", "is needed with secondary_informers")
        _require(clock is not None or events is None, "clock", "is needed with events")
        self.name = name
        self.kind = kind
        self._primary = primary
        self._clock = clock
        self._event_namespace = event_namespace
        self._controller: IController | None = None
        self._workers = Workers(
            WorkQueue(monotonic, limiter, observer=QueueMeter(name, metrics, monotonic)), self._sync, controller=name
        )
        self._recorder = Recorder(events)
        self._running: Running | None = None
        # Values of primaries may be large, and a handler reads what it works on itself.
        self._primaries = Informer(primary, content=False)
        self._entities = {client: Informer(client) for client in (*secondaries, *tertiaries)}
        collections: list[Secondaries] = [EntitySecondaries(client) for client in secondaries]
        if kube is not None:
            collections += [KubeSecondaries(informer, kube) for informer in secondary_informers]
        self._collections = (*collections, *external)
        self._parts = Parts(
            primary=(primary, self._primaries),
            kube=(*secondary_informers, *tertiary_informers),
            entities=tuple(self._entities.items()),
            watched=(*secondary_informers, *(self._entities[client] for client in secondaries)),
            external=tuple(external),
            resync=resync,
            sync_timeout=sync_timeout,
            stop_timeout=stop_timeout,
        )

    def set_custom_controller(self, controller: IController) -> None:
        """Say who is called back; once, before `run`: the two know each other (contract: SetCustomController).

        Raises:
            PermanentError: VALIDATION_FAILED, there is one already.
        """
        _require(self._controller is None, "custom controller", "is set already")
        self._controller = controller

    async def run(self, threadiness: int, stop: asyncio.Event | None = None) -> None:
        """Run until ``stop`` is set, with ``threadiness`` keys at a time (contract: Run; frameworks.md section 2.6).

        Start: external clients, handlers, pictures of Kubernetes objects, pictures of entities, garbage sweep, workers.
        Stop: no key is begun, the current ones end, `IController.clean`, Events are sent, external clients are closed.
        Cancelled, it stops in the same order without waiting for the current keys.

        Raises:
            PermanentError: VALIDATION_FAILED, no custom controller, a ``threadiness`` below 1, or a second run: make a
                new runtime for it. Otherwise what can not be followed any more (contract: errCh).
            TransientError: API_UNAVAILABLE, not all pictures were complete within ``sync_timeout``; says which, why.
        """
        controller = self._controller
        if controller is None:
            raise _invalid("custom controller", "is not set: call set_custom_controller before run")
        _require(threadiness >= 1, "threadiness", f"is {threadiness}, not 1 or more")
        _require(self._running is None, "run", "was called before: a runtime runs once")
        self._running = Running(self._parts, controller, self._workers, self._recorder, name=self.name)
        await self._running.run(threadiness, stop or asyncio.Event())

    def enqueue_key(self, key: str, operation: Operation) -> None:
        """Put the key of a primary onto the work queue (contract: EnqueueKey)."""
        self._workers.add(key, operation)

    def enqueue_key_after(self, key: str, operation: Operation, delay: float) -> None:
        """Put the key onto the work queue after ``delay`` seconds (contract: EnqueueKeyAfter).

        Of several times for one key the earliest counts. It is no retry: failures are not counted.
        """
        self._workers.add_after(key, operation, delay)

    def enqueue_owner(self, obj: Document) -> None:
        """Put the owner of a secondary onto the work queue: the usual body of `IController.handle_secondary`.

        An object without an owner, or with one of another kind, is somebody else's and ignored.
        """
        owner = ownership.owner_of(obj)
        if owner is not None and owner.kind == self.kind:
            self.enqueue_key(owner.key, Operation.SECONDARY)

    def decompose_kube_secondary_resource(self, obj: object) -> tuple[Document, str]:
        """Return a Kubernetes object and the key of its primary, empty if it has none of this controller's kind.

        (contract: DecomposeKubeSecondaryResource)

        Args:
            obj: what an informer handed over; a deleted object is handed over as last known, so nothing is wrapped.

        Raises:
            PermanentError: VALIDATION_FAILED, ``obj`` is no Kubernetes object.
        """
        document, owner = ownership.decompose(obj)
        return document, owner.key if owner is not None and owner.kind == self.kind else ""

    def event(self, obj: Document | Item, type_: EventType, reason: str, text: str) -> None:
        """Let an Event be sent about a Kubernetes object, or about a primary (its `Item`); does not wait.

        (contract: Event)

        Args:
            obj: what it is about. The Event of an object goes into its namespace, that of a primary into
                ``event_namespace`` under the kind of this controller: Kubernetes knows no entities.
            type_: Normal or Warning.
            reason: short, unique, in UpperCamelCase: programs branch on it.
            text: for people.

        Raises:
            PermanentError: VALIDATION_FAILED, another type, no reason, or no Kubernetes object.
        """
        if self._clock is None:
            return
        ref, uid = self._regarding(obj)
        self._recorder.record(
            EventNote(regarding=ref, uid=uid, type=type_, reason=reason, note=text, action="Sync", at=self._clock.now())
        )

    def synced(self, obj: Document | Item, change: Change) -> None:
        """Let the Event be sent that says that ``obj`` was created, updated or deleted."""
        ref, _ = self._regarding(obj)
        self.event(obj, "Normal", REASON_RESOURCE_SYNCED, message(SYNCED[change], ref.name))

    def require_owned(self, obj: Document, key: str) -> None:
        """Make sure that a secondary that exists was made for the primary ``key``; leave it alone if not.

        Raises:
            PermanentError: RELEASE_CONFLICT, it belongs to nobody or to another; an Event with the reason
                ErrResourceExists is sent. Raised out of `IController.sync_handler`, it is looked at again later.
        """
        document, _ = ownership.decompose(obj)
        if ownership.owner_of(document) != Owner(kind=self.kind, key=key):
            ref, _ = self._regarding(document)
            text = message(MESSAGE_ERR_RESOURCE_EXISTS, ref.name)
            self.event(document, "Warning", REASON_ERR_RESOURCE_EXISTS, text)
            raise PermanentError(
                Reason.RELEASE_CONFLICT, f"{ref}: {text}", hint=f"delete or rename it, or {self.kind} {key}"
            )

    def owned(self, document: Document, key: str) -> Document:
        """Return ``document`` with the labels and annotations that make it a secondary of the primary ``key``."""
        return ownership.owned(document, Owner(kind=self.kind, key=key))

    def informer(self, client: EntityClient) -> Informer:
        """Return the picture of one of the secondary or tertiary clients.

        Raises:
            KeyError: it is none of them.
        """
        return self._entities[client]

    async def sweep(self) -> Sweep:
        """Delete secondaries whose primary is gone: the usual body of `IController.garbage_secondaries`.

        A primary that came back while its secondaries were removed is put onto the work queue.

        Raises:
            WindlassError: the primaries could not be listed; nothing was deleted.
        """
        return await sweep(
            self.kind,
            self._primary,
            self._collections,
            returned=lambda key: self.enqueue_key(key, Operation.SECONDARY),
        )

    async def _sync(self, key: str) -> None:
        if self._controller is None:
            raise _invalid("custom controller", "is not set")
        await self._controller.sync_handler(key)

    def _regarding(self, obj: Document | Item) -> tuple[ObjectRef, str]:
        if isinstance(obj, Item):
            ref = ObjectRef(
                api_version=ENTITY_API_VERSION, kind=self.kind, namespace=self._event_namespace, name=obj.key
            )
            return ref, ""
        document, _ = ownership.decompose(obj)
        metadata = document["metadata"]
        ref = ObjectRef(
            api_version=str(document["apiVersion"]),
            kind=str(document["kind"]),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
        )
        return ref, str(metadata.get("uid") or "")


def _invalid(what: str, why: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, f"controller runtime: {what} {why}", actor=Actor.AUTHOR)


def _require(holds: bool, what: str, why: str) -> None:  # noqa: FBT001 - an assertion reads better in order
    if not holds:
        raise _invalid(what, why)
