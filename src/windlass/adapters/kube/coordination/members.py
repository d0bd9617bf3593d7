"""The worker processes of an installation, as each of them sees the others: by Leases that they renew.

A term is one time that a process held its Lease: ``<name of the Lease>/<random>``. Shards are owned by terms, so that a
process that was away too long does not take what it owned before for its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.adapters.kube.coordination.leases import API_VERSION, held
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import WindlassError
from windlass.domain.ids import INSTALLATION_LABEL, MEMBER_LABEL, member_of
from windlass.ports.kube import Kube, Object, ObjectRef

LEASE_SECONDS: Final = 10.0
"""Seconds until the shards of a lost process are taken over. It gives up after 8.3 of them, so that hooks (stopped in
1 s) and Helm operations (killed at once) have ended by then; on a machine under load a stall of seconds is survived.
One that cannot give up, because it is frozen, is killed after 9."""

_WORKER: Final = "worker"


@dataclass(frozen=True, kw_only=True)
class _Sighting:
    """A Lease as it was seen last; ``at`` is when it was first seen like that, by our clock."""

    term: str
    version: str
    seconds: float
    at: float


class Members:
    """The Leases of an installation's workers, followed by watch.

    Args:
        kube: a client of its own.
        namespace: of the Leases.
        installation: the installation id.
        clock: monotonic seconds.
    """

    def __init__(
        self, kube: Kube, namespace: str, installation: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._labels = {INSTALLATION_LABEL: installation, MEMBER_LABEL: _WORKER}
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}
        self._missed: dict[str, float] = {}

    def joined(
        self, term: str, promise: Callable[[float], object] = lambda _: None
    ) -> AbstractAsyncContextManager[None]:
        """Be a member as ``term`` while the body runs; see `held`."""
        return held(
            self._kube,
            self._namespace,
            member_of(term),
            term,
            LEASE_SECONDS,
            labels=self._labels,
            fleeting=True,
            promise=promise,
        )

    async def follow(self, changed: Callable[[], object]) -> None:
        """Keep the picture up to date until cancelled; call ``changed`` after each change."""
        selector = ",".join(f"{name}={value}" for name, value in self._labels.items())
        stream = list_and_watch(self._kube, API_VERSION, "Lease", namespace=self._namespace, label_selector=selector)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed):
                    for name in self._seen.keys() - {item["metadata"]["name"] for item in event.items}:
                        del self._seen[name]
                    for item in event.items:
                        self._note(item)
                elif event.type == "DELETED":
                    self._seen.pop(event.object["metadata"]["name"], None)
                elif event.type != "BOOKMARK":
                    if not self._note(event.object):
                        continue
                else:
                    continue
                changed()

    def alive(self) -> set[str]:
        """Return the terms whose Leases are renewed."""
        now = self._clock()
        return {seen.term for seen in self._seen.values() if seen.term and now < seen.at + seen.seconds}

    def next_expiry(self) -> float | None:
        """Return in how many seconds the next of the living, or of those who are missed, will have ended if silent."""
        now = self._clock()
        ends = [seen.at + seen.seconds for seen in self._seen.values() if seen.term]
        ends += [since + LEASE_SECONDS for since in self._missed.values()]
        return min((end - now for end in ends if end > now), default=None)

    async def gone(self, terms: Iterable[str]) -> bool:
        """Ask the API server whether these terms have ended indeed; a watch that hangs must not make us believe it.

        A term whose Lease is absent counts as ended once it has been missed for as long as a Lease lasts: a Lease
        that somebody has deleted is given up by its holder within that time.
        """
        ended = True
        for term in terms:
            ref = ObjectRef(api_version=API_VERSION, kind="Lease", namespace=self._namespace, name=member_of(term))
            found = await self._kube.get(ref)
            if found is None:
                since = self._missed.setdefault(term, self._clock())
                ended = ended and self._clock() >= since + LEASE_SECONDS
                continue
            self._note(found)
            ended = ended and term not in self.alive()
        return ended

    async def bury(self, terms: Iterable[str]) -> None:
        """Delete the Leases of terms that have ended."""
        for term in terms:
            self._missed.pop(term, None)
            ref = ObjectRef(api_version=API_VERSION, kind="Lease", namespace=self._namespace, name=member_of(term))
            with suppress(WindlassError):  # it says nothing false, and the next take-over may clear it away
                found = await self._kube.get(ref)
                if found is not None and _spec(found).get("holderIdentity") == term:
                    await self._kube.delete(ref, uid=found["metadata"]["uid"])

    def _note(self, lease: Object) -> bool:
        """Take a Lease in; return whether its holder is another, or was thought to be gone."""
        spec = _spec(lease)
        name, version = lease["metadata"]["name"], str(lease["metadata"]["resourceVersion"])
        before = self._seen.get(name)
        if before is not None and before.version == version:
            return False
        now = self._clock()
        sighting = _Sighting(
            term=str(spec.get("holderIdentity") or ""),
            version=version,
            seconds=float(spec.get("leaseDurationSeconds") or LEASE_SECONDS),
            at=now,
        )
        self._seen[name] = sighting
        return before is None or before.term != sighting.term or now >= before.at + before.seconds


def _spec(lease: Object) -> dict[str, Any]:
    return cast("dict[str, Any]", lease.get("spec") or {})
