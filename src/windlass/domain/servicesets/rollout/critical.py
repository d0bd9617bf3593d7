"""What decides when a planned rollout ends: an unbroken line of steps and waits from its beginning to its end."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from typing import NamedTuple

from windlass.domain.servicesets.rollout.plan import ClusterPlan, Plan
from windlass.domain.servicesets.rollout.state import Gate
from windlass.domain.servicesets.rollout.timeline import Hop, ServicePlan


class Segment(NamedTuple):
    """A part of the critical path.

    Attributes:
        since: when it begins, which is when the part before it ends.
        until: when it ends.
        gate: what is waited for; None for a step.
        cluster: where; empty between waves.
        text: what happens.
    """

    since: datetime
    until: datetime
    gate: Gate | None
    cluster: str
    text: str


def critical_path(plan: Plan) -> tuple[Segment, ...]:
    """Return the parts in order: the first begins with the plan, the last one ends with it; empty if nothing is done.

    Shorten one of them and the rollout ends earlier, unless a second path is just as long.
    """
    return tuple(reversed(list(_Backwards(plan).segments())))


class _Backwards:
    """Walks from the end of a plan to its beginning: each part says when the one before it ended."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clusters = {one.name: one for one in plan.clusters}

    def segments(self) -> Iterator[Segment]:
        ends = [(one.ends, one.name) for one in self._plan.clusters if one.ends is not None]
        name = max(ends)[1] if ends else ""
        while name:
            cluster = self._clusters[name]
            since = yield from self._on_cluster(cluster)
            if cluster.begins is None or since != cluster.begins:
                return
            name = yield from self._before_cluster(cluster)

    def _on_cluster(self, cluster: ClusterPlan) -> Generator[Segment, None, datetime]:
        """Yield the steps on a cluster that decide when it ends; return when the first of them could have begun."""
        at = cluster.ends or self._plan.now
        found = _ending(cluster, at)
        while found is not None:
            service, number = found
            at, linked = yield from _steps(cluster, service, number)
            if linked:
                first = None if service.waited_for is None else cluster.services[service.waited_for]
                found = _ending(cluster, at, first)
                continue
            return at
        return at

    def _before_cluster(self, cluster: ClusterPlan) -> Generator[Segment, None, str]:
        """Yield what a cluster waited for before it began; return the cluster whose end came before that."""
        begins = cluster.begins or self._plan.now
        if cluster.waited_for:
            return (yield from self._before_slot(self._clusters[cluster.waited_for], cluster, begins))
        for wait in reversed(cluster.waits):
            yield Segment(wait.since, begins, wait.gate, cluster.name, f"waits {wait.text}")
            begins = wait.since
        wave = self._plan.waves[cluster.wave - 1]
        if wave.opens is not None and begins > wave.opens:
            # Its own step, which was under way before the rollout, had to end first.
            if (found := _ending(cluster, begins)) is not None:
                yield from _steps(cluster, *found)
            return ""
        for wait in wave.waits:
            if wait.until == begins:
                yield Segment(wait.since, begins, wait.gate, "", f"{wave.wave} waits {wait.text}")
                begins = wait.since
                break
        if begins == self._plan.now:
            return ""
        ended = [name for one in self._plan.waves[: cluster.wave - 1] for name in one.wave.clusters]
        return next((name for name in reversed(ended) if self._clusters[name].ends == begins), "")

    def _before_slot(self, other: ClusterPlan, cluster: ClusterPlan, begins: datetime) -> Generator[Segment, None, str]:
        """Yield what was between the end of what held the slot and the beginning of the cluster that got it."""
        ended = None if other is cluster or other.begins is None or other.begins > begins else other.ends
        ran = ended is not None and ended <= begins
        if ended is None or not ran:
            # What was under way there before the rollout took the slot.
            ended = max(one.hops[0].ends for one in other.services if one.hops and one.intent.under_way is not None)
        if ended < begins:
            yield Segment(ended, begins, Gate.WINDOW, cluster.name, "waits for the window")
        if ran:
            return other.name
        if (found := _ending(other, ended)) is not None:
            yield from _steps(other, *found)
        return ""


def _ending(cluster: ClusterPlan, at: datetime, first: ServicePlan | None = None) -> tuple[ServicePlan, int] | None:
    """Return a service, and the number of its step, that ends at a time; ``first`` is looked at first."""
    for service in (*([first] if first else []), *cluster.services):
        for number, hop in enumerate(service.hops):
            if hop.ends == at:
                return service, number
    return None


def _steps(cluster: ClusterPlan, service: ServicePlan, number: int) -> Generator[Segment, None, tuple[datetime, bool]]:
    """Yield a step and those right before it; return when the first began, and whether a dependency ended then."""
    at = service.hops[number].ends
    for before in range(number, -1, -1):
        hop = service.hops[before]
        if hop.ends != at:
            break
        yield Segment(hop.begins, hop.ends, None, cluster.name, f"{service.intent.service} {_shown(hop)}")
        at = hop.begins
        if hop.wait is not None:
            yield Segment(hop.wait.since, hop.begins, hop.wait.gate, cluster.name, f"waits {hop.wait.text}")
            at = hop.wait.since
    linked = service.wait is not None and service.wait.until == at
    return at, linked


def _shown(hop: Hop) -> str:
    if not hop.end:
        return f"is removed ({hop.start})"
    if not hop.start:
        return f"is installed at {hop.version}"
    return f"gets ready at {hop.version}" if hop.start == hop.end else f"{hop.start} to {hop.end}"
