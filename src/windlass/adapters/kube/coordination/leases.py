"""Holding a role alone, by a coordination.k8s.io/v1 Lease.

The rules are those of Kubernetes' own leader election: a Lease is free when it has no holder, or when it has not
changed for its duration *by our clock since we saw it* (never by comparing the clocks of two machines); whoever cannot
renew gives up before anybody else may take over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import structlog

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.ports.kube import Kube, Object, ObjectRef

_log = structlog.stdlib.get_logger(__name__)

API_VERSION: Final = "coordination.k8s.io/v1"
_RENEWALS: Final = 3
"""Renewals per duration: the holder tries at one and two thirds and gives up at the third one."""

_KILLED_AFTER: Final = 0.9
"""Part of the duration after which a holder that has neither renewed nor given up may be killed: it gives up by itself
after at most 5/6."""

_RETRY_SECONDS: Final = 1.0
_RELEASE_SECONDS: Final = 2.0  # giving the lease back must not hold up a shutdown


class LeaseLostError(TransientError):
    """The lease could not be renewed, or somebody else holds it: what was done under it must stop."""


@asynccontextmanager
async def held(
    kube: Kube,
    namespace: str,
    name: str,
    identity: str,
    duration: float = 15.0,
    *,
    labels: Mapping[str, str] | None = None,
    fleeting: bool = False,
    promise: Callable[[float], object] = lambda _: None,
) -> AsyncGenerator[None]:
    """Wait for the Lease, run the body while it is held, and give it back.

    Args:
        kube: the client.
        namespace: of the Lease; it must exist.
        name: of the Lease; made if it is absent.
        identity: who we are. A Lease that already names it is taken at once: that is we before a restart, so an
            identity must show that the process which had it is dead (`windlass.worker.identity`). What
            follows a slash tells the terms of one process apart.
        duration: seconds until others may take over a Lease that is not renewed; whole seconds, at least 1.
        labels: of a Lease that is made.
        fleeting: delete the Lease at the end instead of leaving it without a holder.
        promise: told after each renewal until when this process is heard of again if it runs at all, and 0 when it has
            given up or given back; for what ends it otherwise (`windlass.adapters.processes.watchdog`).

    Raises:
        LeaseLostError: the body was cancelled because the Lease is lost.
    """
    ref = ObjectRef(api_version=API_VERSION, kind="Lease", namespace=namespace, name=name)
    lease = _Lease(kube, ref, labels or {}, fleeting)
    holder = _Holder(lease, identity, max(1, int(duration)), promise)
    await holder.acquire()
    body = asyncio.current_task()
    lost: list[str] = []
    ended = False

    async def keep() -> None:
        lost.append(await holder.renew_until_lost())
        promise(0)
        if body is not None and not ended:
            body.cancel()

    keeping = asyncio.create_task(keep())
    try:
        yield
    except asyncio.CancelledError:
        if lost and body is not None and body.uncancel() == 0:
            raise LeaseLostError(Reason.LEASE_LOST, f"{lease.ref} is lost: {lost[0]}") from None
        raise
    finally:
        ended = True
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        promise(0)
        if not lost:
            with suppress(WindlassError, TimeoutError):  # it expires by itself
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await holder.release()


@dataclass(frozen=True)
class _Lease:
    kube: Kube
    ref: ObjectRef
    labels: Mapping[str, str]
    fleeting: bool

    async def write(self, spec: Object, found: Object | None) -> Object:
        """Create, or replace exactly the version that was seen; API_CONFLICT if somebody was quicker."""
        metadata: Object = {"namespace": self.ref.namespace, "name": self.ref.name, "labels": dict(self.labels)}
        if found is None:
            return await self.kube.create(
                {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": spec}
            )
        return await self.kube.replace({**found, "spec": {**_spec(found), **spec}})

    def follow(self) -> AsyncGenerator[Any]:
        """Yield every state of the Lease."""
        return list_and_watch(
            self.kube,
            API_VERSION,
            "Lease",
            namespace=self.ref.namespace,
            field_selector=f"metadata.name={self.ref.name}",
        )


class _Holder:
    """One contender. ``_mine`` is the Lease as we wrote it last."""

    def __init__(
        self,
        lease: _Lease,
        identity: str,
        duration: int,
        promise: Callable[[float], object],
    ) -> None:
        self._promise = promise
        self._lease = lease
        self._identity = identity
        self._duration = duration
        self._mine: Object = {}
        self._renewed_at = 0.0

    async def acquire(self) -> None:
        """Return once the Lease is ours; follows it by watch meanwhile.

        Raises:
            WindlassError: the Lease may not be written, or its namespace is absent.
        """
        async with aclosing(self._lease.follow()) as states:
            found = _newest(await anext(states), None)
            changed_at = time.monotonic()
            following = asyncio.ensure_future(anext(states))
            try:
                while not (self._free(found, changed_at) and await self._take(found)):
                    await asyncio.wait({following}, timeout=self._pause(found, changed_at))
                    if following.done():
                        before, found = found, _newest(following.result(), found)
                        if _version(found) != _version(before):
                            changed_at = time.monotonic()
                        following = asyncio.ensure_future(anext(states))
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def renew_until_lost(self) -> str:
        """Renew for ever; return why the Lease is lost."""
        pause = self._duration / _RENEWALS
        while True:
            await asyncio.sleep(pause)
            left = self._renewed_at + self._duration * (_RENEWALS - 1) / _RENEWALS - time.monotonic()
            try:
                async with asyncio.timeout(max(left, 0.0) + pause / 2):
                    await self._write(self._mine)
            except TransientError as error:
                if error.reason is Reason.API_CONFLICT:
                    return "somebody else has taken it"
                if left <= 0:
                    return f"it cannot be renewed ({error.message})"
            except WindlassError as error:
                return f"it cannot be renewed ({error.message})"
            except TimeoutError:
                return "the API server does not answer"
            except Exception as error:  # noqa: BLE001 - whatever it is, who does not renew must not go on
                _log.exception("lease not renewed", lease=str(self._lease.ref))
                return f"it cannot be renewed ({type(error).__name__}: {error})"

    async def release(self) -> None:
        """Give the Lease back: it has no holder and others need not wait."""
        if self._lease.fleeting:
            await self._lease.kube.delete(self._lease.ref, uid=self._mine["metadata"]["uid"])
            return
        await self._lease.write({"holderIdentity": "", "leaseDurationSeconds": 1}, self._mine)

    def _expires_in(self, found: Object | None, changed_at: float) -> float:
        return changed_at + float(_spec(found).get("leaseDurationSeconds") or self._duration) - time.monotonic()

    def _free(self, found: Object | None, changed_at: float) -> bool:
        holder = str(_spec(found).get("holderIdentity") or "")
        return not holder or _process(holder) == _process(self._identity) or self._expires_in(found, changed_at) <= 0

    def _pause(self, found: Object | None, changed_at: float) -> float:
        """Return how long to wait for a change: until the Lease expires, or a moment after a failed try."""
        left = self._expires_in(found, changed_at)
        return _RETRY_SECONDS if self._free(found, changed_at) else left

    async def _take(self, found: Object | None) -> bool:
        try:
            await self._write(found)
        except TransientError as error:
            if error.reason not in (Reason.API_CONFLICT, Reason.API_UNAVAILABLE):
                raise
            return False  # somebody was quicker, which the watch will tell, or the API server is away
        return True

    async def _write(self, found: Object | None) -> None:
        began = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = _spec(found)
        ours = spec.get("holderIdentity") == self._identity
        written: Object = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration,
            "renewTime": now,
            "acquireTime": spec.get("acquireTime") if ours and spec.get("acquireTime") else now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if ours else 1),
        }
        self._mine = await self._lease.write(written, found)
        self._renewed_at = began
        self._promise(began + _KILLED_AFTER * self._duration)


def _newest(event: Any, before: Object | None) -> Object | None:
    if isinstance(event, Listed):
        return event.items[0] if event.items else None
    if event.type == "BOOKMARK":
        return before
    return None if event.type == "DELETED" else cast("Object", event.object)


def _process(identity: str) -> str:
    return identity.partition("/")[0]


def _version(lease: Object | None) -> str:
    return str(lease["metadata"]["resourceVersion"]) if lease else ""


def _spec(lease: Object | None) -> Object:
    return cast("Object", (lease or {}).get("spec") or {})
