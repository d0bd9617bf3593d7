"""ActionRequests: watched, passed on to the lifecycles, answered in their status, and swept (docs/adr/0023).

Requests about one package are passed on in the order in which they were created. One that cannot be passed on now
(Temporal or the workers do not answer) waits, and says so in its status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import structlog

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.contracts.actions import (
    INSPECT,
    ActionRequest,
    ActionRequestStatus,
    RequestPhase,
    action_of,
    parse_request,
)
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.backoff import delay
from windlass.domain.errors import Category, PermanentError, Reason, WindlassError
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.observers.border import Border
from windlass.observers.watcher.policies import ActionPolicies
from windlass.observers.watcher.waiting_requests import WaitingRequests
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles

KIND: Final = "ActionRequest"
AGAIN_CAP: Final = 5.0
"""Seconds at most until a request that waits is passed on again: somebody is looking."""

SWEEP: Final = 600.0
"""Seconds between two looks for requests to delete."""

TURNS: Final = 4
"""Requests of one namespace that are passed on at a time."""

TICKET_KEEP: Final = timedelta(minutes=10)
"""How long tickets for the inspect endpoint stay at least; they can be used for one minute."""

MESSAGE_MAX: Final = 1024

_log = structlog.stdlib.get_logger(__name__)


class RequestWatcher:
    """Runs until cancelled.

    Args:
        kube: the watcher's client.
        lifecycles: carry the requests out.
        installation: the installation id; requests about packages of others are left alone.
        keep: how long answered requests stay.
        border: restarts what fails.
    """

    def __init__(
        self, *, kube: Kube, lifecycles: PackageLifecycles, installation: str, keep: timedelta, border: Border
    ) -> None:
        self._kube = kube
        self._lifecycles = lifecycles
        self._installation = installation
        self._keep = keep
        self._border = border
        self._policies = ActionPolicies(kube)
        self._open = WaitingRequests(installation)
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._busy: dict[PackageKey, asyncio.Task[None]] = {}
        self._answered: dict[str, tuple[ObjectRef, str, datetime]] = {}

    async def run(self) -> None:
        """Watch, pass on and sweep until cancelled."""
        tasks = [self._border.spawn_shared("requests", part) for part in (self._watch, self._sweep)]
        try:
            await asyncio.gather(*tasks)
        finally:
            ending = [*tasks, *self._busy.values()]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _watch(self) -> None:
        async for event in self._stream():
            if isinstance(event, Listed):
                self._open.clear()
                self._answered.clear()
                for item in event.items:
                    self._take(item)
            elif event.type == "DELETED":
                self._forget(event.object["metadata"]["uid"])
            elif event.type != "BOOKMARK":
                self._take(event.object)

    async def _stream(self) -> AsyncIterator[Any]:
        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=KIND, reason=error.reason.value, error=str(error))

        async for event in list_and_watch(self._kube, API_VERSION, KIND, on_error=told):
            yield event

    def _take(self, obj: Object) -> None:
        try:
            request = parse_request(obj)
        except ValueError:
            _log.warning("object not understood", kind=KIND, name=obj.get("metadata", {}).get("name"))
            return
        uid = request.metadata.uid
        if request.answered and request.status is not None:
            self._open.drop(uid)
            at = request.status.at or request.created
            self._answered[uid] = (_ref(request), request.metadata.resource_version, at)
            return
        if request.spec.action == INSPECT:
            at = request.created - self._keep + TICKET_KEEP
            self._answered[uid] = (_ref(request), request.metadata.resource_version, at)
            return
        key = self._open.put(request)
        if key not in self._busy:
            self._busy[key] = self._border.spawn(key, "requests", partial(self._pass_on_all, key))

    def _forget(self, uid: str) -> None:
        self._open.drop(uid)
        self._answered.pop(uid, None)

    # -- passing on --------------------------------------------------------------------------------------------------

    async def _pass_on_all(self, key: PackageKey) -> None:
        """Pass on what is asked of one package, oldest first, until nothing is left."""
        failures = 0
        while request := self._open.oldest(key):
            try:
                async with self._turn(request.metadata.namespace):
                    await self._pass_on(key, request)
                failures = 0
            except WindlassError as error:
                _log.warning("request waits", package=key.package_id, reason=error.reason.value, error=str(error))
                failures += 1
                await self._wait_on(request, error)
                await asyncio.sleep(min(delay(Category.TRANSIENT, failures, chance=0.5), AGAIN_CAP))
        self._busy.pop(key, None)  # in one go with the last look: the next request begins another task

    @asynccontextmanager
    async def _turn(self, namespace: str) -> AsyncGenerator[None]:
        """Wait for one of the turns of a namespace, so that one full of requests does not hold up the others."""
        turns = self._turns.setdefault(namespace, asyncio.Semaphore(TURNS))
        async with turns:
            yield

    async def _pass_on(self, key: PackageKey, request: ActionRequest) -> None:
        package = await self._package(key)
        if package is not None and package.installation != self._installation:
            self._open.drop(request.metadata.uid)  # theirs to answer
            return
        if reason := await self._refusal(request, package):
            await self._answer(request, "Refused", reason)
            return
        try:
            action = action_of(request)
        except ValueError as error:
            await self._answer(request, "Refused", str(error))
            return
        try:
            result = await self._lifecycles.carry_out(key, request.spec.action, action)
        except PermanentError as error:
            if error.reason is not Reason.VALIDATION_FAILED:
                raise  # no lifecycle runs yet: the watcher starts one
            await self._answer(request, "Refused", error.message)
            return
        where = f" (phase {result.phase}, step {result.step})" if result.phase else ""
        phase: RequestPhase = "Unknown" if result.unknown else "Accepted" if result.accepted else "Refused"
        await self._answer(request, phase, result.message + where)

    async def _package(self, key: PackageKey) -> PackageObject | None:
        ref = ObjectRef(api_version=API_VERSION, kind=key.kind.value, namespace=key.namespace, name=key.name)
        found = await self._kube.get(ref)
        return parse_package(key.kind, found) if found is not None else None

    async def _refusal(self, request: ActionRequest, package: PackageObject | None) -> str:
        """Say why a request is not passed on; empty if it is."""
        if reason := await self._policies.refusal(request.created):
            return reason
        target = request.spec.target
        where = f" in namespace {request.metadata.namespace}" if target.kind == "Application" else ""
        if package is None:
            return f"there is no {target.kind} {target.name}{where}"
        made = package.metadata.creation_timestamp
        if made and request.created < datetime.fromisoformat(made):
            return f"it was created before this {target.kind} {target.name}{where}: it was about another one"
        return ""

    # -- status ------------------------------------------------------------------------------------------------------

    async def _answer(self, request: ActionRequest, phase: RequestPhase, message: str) -> None:
        status = ActionRequestStatus(
            phase=phase,
            accepted=None if phase == "Unknown" else phase == "Accepted",
            message=message[:MESSAGE_MAX],
            at=datetime.now(UTC).replace(microsecond=0),
        )
        await self._write(request, status)
        self._open.drop(request.metadata.uid)
        target, spec = request.spec.target, request.spec
        _log.info("request answered", action=spec.action, target=target.name, who=spec.who, phase=phase)

    async def _wait_on(self, request: ActionRequest, error: WindlassError) -> None:
        """Say in the status of a request what it waits for, once for each reason."""
        message = (f"{error.message}; {error.hint}" if error.hint else error.message)[:MESSAGE_MAX]
        if request.status is not None and request.status.message == message:
            return
        with contextlib.suppress(WindlassError):
            await self._write(request, ActionRequestStatus(phase="Waiting", message=message))

    async def _write(self, request: ActionRequest, status: ActionRequestStatus) -> None:
        """Write the status of a request; one that is gone, or was replaced under its name, is none of our business."""
        body = {
            "metadata": {"uid": request.metadata.uid},
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        await self._kube.patch(_ref(request), body, kind="merge", subresource="status")

    # -- sweeping ----------------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP, self._keep.total_seconds()))
            limit = datetime.now(UTC) - self._keep
            for uid, (ref, version, at) in list(self._answered.items()):
                if at < limit:
                    with contextlib.suppress(WindlassError):  # the next sweep tries again
                        await self._kube.delete(ref, uid=uid, resource_version=version)


def _ref(request: ActionRequest) -> ObjectRef:
    metadata = request.metadata
    return ObjectRef(api_version=API_VERSION, kind=KIND, namespace=metadata.namespace, name=metadata.name)
