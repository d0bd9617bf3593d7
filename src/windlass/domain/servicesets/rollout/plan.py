"""What a whole rollout would do: a what-if, with every step, gate and predicted time. Linear in services.

It follows `windlass.domain.servicesets.rollout.next_action` and assumes that every step succeeds in the predicted
time and that approvals come after ``approval_wait``; a test drives that decision step by step and compares.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from windlass.domain.servicesets.holds import listed
from windlass.domain.servicesets.rollout.fleet import Change, ClusterIntents, Fleet
from windlass.domain.servicesets.rollout.intents import intents
from windlass.domain.servicesets.rollout.line import Line
from windlass.domain.servicesets.rollout.policy import RolloutPolicy, rounded_down, rounded_up
from windlass.domain.servicesets.rollout.predictions import Predictions
from windlass.domain.servicesets.rollout.state import Gate
from windlass.domain.servicesets.rollout.timeline import Calendar, ServicePlan, Wait, finishing, stopped, timeline
from windlass.domain.servicesets.rollout.waves import Target, Wave, waves
from windlass.domain.servicesets.rollout.windows import Window
from windlass.domain.text.durations import show_duration


class Outcome(StrEnum):
    """How a cluster would end."""

    NOTHING = "Nothing"  # it is as desired already
    DEPLOYED = "Deployed"
    FAILED = "Failed"  # a step has failed and counts against the budget
    HELD = "Held"  # something on it cannot go on
    NOT_BEGUN = "NotBegun"  # something before it never lets it begin


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPlan:
    """What would happen on one cluster.

    Attributes:
        name: ``namespace/name``.
        wave: number of its wave.
        outcome: how it would end.
        begins: when it may begin; None if there is nothing to do or it never does.
        ends: when its last step ends.
        waits: what it waits for before it begins, after its wave has opened.
        waited_for: the cluster whose end it waited for.
        services: each of its services.
        hold: why it does not get to what is desired; empty if it does.
    """

    name: str
    wave: int
    outcome: Outcome
    begins: datetime | None
    ends: datetime | None
    waits: tuple[Wait, ...] = ()
    waited_for: str = ""
    services: tuple[ServicePlan, ...] = ()
    hold: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class WavePlan:
    """What would happen in one wave.

    Attributes:
        wave: its clusters.
        opens: when its first cluster may begin; None if none does.
        ends: when its last cluster has ended; None if it never does.
        waits: what it waits for after the wave before has ended.
        waited_for: the cluster that ends last of those before it.
        hold: why it does not open; empty if it does.
    """

    wave: Wave
    opens: datetime | None
    ends: datetime | None
    waits: tuple[Wait, ...] = ()
    waited_for: str = ""
    hold: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a whole rollout would do.

    Attributes:
        now: when it would begin.
        ends: when the last cluster ends; None if nothing takes any time.
        complete: whether everything gets to what is desired.
        waves: in order.
        clusters: in the order of waves.
    """

    now: datetime
    ends: datetime | None
    complete: bool
    waves: tuple[WavePlan, ...]
    clusters: tuple[ClusterPlan, ...]


def plan(
    policy: RolloutPolicy,
    fleet: Fleet,
    now: datetime,
    predictions: Predictions | None = None,
    approval_wait: timedelta = timedelta(),
) -> Plan:
    """Return what a rollout that begins ``now`` would do.

    Args:
        policy: how it goes over the clusters.
        fleet: clusters, what they should have, what they have.
        now: with a time zone.
        predictions: how long steps take; every one takes the default if absent.
        approval_wait: how long people take to approve a wave, from when it is asked for: all before it has ended.

    Raises:
        CanaryMissingError: see `waves`.
        ValueError: two clusters have the same name.
    """
    found = intents(fleet)
    there = {one.name: one for one in found}
    if len(there) < len(found):
        raise ValueError("two clusters of a fleet have the same namespace and name")
    targets = [Target(name, one.labels) for name, one in there.items()]
    walk = _Walk(policy, there, now, predictions or Predictions(), approval_wait)
    for wave in waves(policy, targets):
        walk.wave(wave)
    # A cluster that has failed already ends as it begins, without a step.
    ends = [one.ends for one in walk.clusters.values() if one.ends is not None and one.ends > now]
    return Plan(
        now=now,
        ends=max(ends, default=None),
        complete=all(one.outcome in {Outcome.NOTHING, Outcome.DEPLOYED} for one in walk.clusters.values()),
        waves=tuple(walk.waves),
        clusters=tuple(walk.clusters[name] for one in walk.waves for name in one.wave.clusters),
    )


class _Slot(NamedTuple):
    """A slot that comes free."""

    at: datetime
    cluster: str


NO_WINDOW: Final = "no window ever opens for this cluster"

_ENDED: Final = {Outcome.NOTHING, Outcome.DEPLOYED, Outcome.FAILED}


class _Walk:
    """Goes through the waves, one after another."""

    def __init__(
        self,
        policy: RolloutPolicy,
        there: Mapping[str, ClusterIntents],
        now: datetime,
        predictions: Predictions,
        approval_wait: timedelta,
    ) -> None:
        self._policy = policy
        self._there = there
        self._now = now
        self._predictions = predictions
        self._approval_wait = approval_wait
        self._slots = rounded_up(policy.max_concurrent, len(there))
        self._allowed = rounded_down(policy.failure_budget, len(there))
        self._busy: list[_Slot] = []
        self._failed: list[_Slot] = []
        self._last_begun: _Slot | None = None
        self._hold = ""
        self._windows = {name: policy.windows_of(one.labels) for name, one in there.items()}
        self._free_since = {name: finishing(one, now, predictions) for name, one in there.items()}
        for name, until in self._free_since.items():
            if until > now:
                heapq.heappush(self._busy, _Slot(until, name))
        self.waves: list[WavePlan] = []
        self.clusters: dict[str, ClusterPlan] = {}

    def wave(self, wave: Wave) -> None:
        """Plan one wave after those before it."""
        if self._hold:
            for name in wave.clusters:
                self._never(wave, name, self._hold)
            self.waves.append(WavePlan(wave=wave, opens=None, ends=None, hold=self._hold))
            return
        if not any(_moves(self._there[name]) for name in wave.clusters):
            self._over_already(wave)
            return
        opens, waits, last = self._opening(wave)
        self._begin(wave, opens)
        self._stop_at_budget(wave)
        self._end(wave, opens, waits, last)

    def _over_already(self, wave: Wave) -> None:
        """A wave in which nothing begins: no gate holds it up, and it ends with what is under way."""
        for name in wave.clusters:
            self._settle(wave, name, next((one.hold for one in self._there[name].services if one.hold), ""))
        self._end(wave, None, (), "")

    def _end(self, wave: Wave, opens: datetime | None, waits: tuple[Wait, ...], last: str) -> None:
        plans = [self.clusters[name] for name in wave.clusters]
        ends = max([self._since(), *(one.ends for one in plans if one.ends is not None)])
        if open_ := [one.name for one in plans if one.outcome not in _ENDED]:
            self._hold = f"{wave} does not end: {listed(open_)} cannot go on"
        self.waves.append(WavePlan(wave=wave, opens=opens, ends=None if open_ else ends, waits=waits, waited_for=last))

    def _since(self) -> datetime:
        """Return when the waves so far have ended."""
        return (self.waves[-1].ends if self.waves else None) or self._now

    def _opening(self, wave: Wave) -> tuple[datetime, tuple[Wait, ...], str]:
        """Return when a wave may begin, what it waits for, and the cluster of those before it that ends last."""
        since = self._since()
        last = self._last_begun
        opens, waits = since, list[Wait]()
        if last is not None and (until := last.at + self._policy.soak) > since:
            text = f"until what went before has run for {show_duration(self._policy.soak)}"
            waits.append(Wait(Gate.SOAK, since, until, text))
            opens = until
        after_canary = bool(self.waves) and self.waves[0].wave.canary
        if self._policy.approval_needed(wave.number, after_canary=after_canary):
            until = since + self._approval_wait
            waits.append(Wait(Gate.APPROVAL, since, until, "until somebody approves it"))
            opens = max(opens, until)
        return opens, tuple(waits), last.cluster if last else ""

    def _begin(self, wave: Wave, opens: datetime) -> None:
        """Give the clusters of an open wave slots, in their order, as their windows open and slots come free."""
        line = Line(self._moving(wave, opens))
        at, released = opens, ""
        while line:
            while self._busy and self._busy[0].at <= at:
                released = heapq.heappop(self._busy).cluster
            line.wake(at)
            if spent := self._budget(at):
                for place in line.rest():
                    self._never(wave, wave.clusters[place], spent)
                return
            for place in line.shut_out(at):
                self._never(wave, wave.clusters[place], NO_WINDOW)
            while len(self._busy) < self._slots and (place := line.take(at)) is not None:
                self._run(wave, wave.clusters[place], max(opens, self._free_since[wave.clusters[place]]), at, released)
            at = line.next_time(at, self._busy[0].at if self._busy else None)

    def _moving(self, wave: Wave, opens: datetime) -> list[tuple[datetime, int, Sequence[Window] | None]]:
        """Return the clusters that something can be done on: from when on they are free, place, windows."""
        found: list[tuple[datetime, int, Sequence[Window] | None]] = []
        for place, name in enumerate(wave.clusters):
            if _moves(self._there[name]):
                found.append((max(self._free_since[name], opens), place, self._windows[name]))
            else:
                self._settle(wave, name, next((one.hold for one in self._there[name].services if one.hold), ""))
        return found

    def _settle(self, wave: Wave, name: str, hold: str) -> None:
        """A cluster on which nothing begins, at most ends."""
        until = self._free_since[name]
        services = timeline(self._there[name], until, self._now, Calendar(None), self._predictions)
        under_way = any(one.hops for one in services)
        outcome = Outcome.HELD if hold else Outcome.DEPLOYED if under_way else Outcome.NOTHING
        self.clusters[name] = ClusterPlan(
            name=name,
            wave=wave.number,
            outcome=outcome,
            begins=None,
            ends=until if under_way else None,
            services=services,
            hold=hold,
        )

    def _never(self, wave: Wave, name: str, hold: str) -> None:
        """A cluster that does not begin; what is under way on it ends."""
        cluster = self._there[name]
        if not _moves(cluster):
            self._settle(wave, name, next((one.hold for one in cluster.services if one.hold), ""))
            return
        until = self._free_since[name]
        self.clusters[name] = ClusterPlan(
            name=name,
            wave=wave.number,
            outcome=Outcome.NOT_BEGUN,
            begins=None,
            ends=until if until > self._now else None,
            services=stopped(timeline(cluster, until, self._now, Calendar(None), self._predictions), until, hold),
            hold=hold,
        )

    def _run(self, wave: Wave, name: str, since: datetime, at: datetime, released: str) -> None:
        """A cluster that begins ``at``, after it could have begun ``since``."""
        windows = self._windows[name]
        services = timeline(self._there[name], at, self._now, Calendar(windows), self._predictions)
        ends = max((plan.hops[-1].ends for plan in services if plan.hops), default=at)
        hold = next((plan.hold for plan in services if plan.hold), "")
        failed = any(plan.intent.failed for plan in services)
        if hold and not failed and not any(hop.begins >= at for plan in services for hop in plan.hops):
            self._settle(wave, name, hold)
            return
        slot = _Slot(max(ends, at), name)
        heapq.heappush(self._busy, slot)
        self._last_begun = max(slot, self._last_begun or slot)
        if failed:
            self._failed.append(slot)
        opened = Calendar(windows).opens(since) or since
        waits = [Wait(Gate.WINDOW, since, opened, "for the window")] if opened > since else []
        if at > opened:
            waits.append(Wait(Gate.CONCURRENCY, opened, at, f"for a slot: at most {self._slots} at a time"))
        self.clusters[name] = ClusterPlan(
            name=name,
            wave=wave.number,
            outcome=Outcome.FAILED if failed else Outcome.HELD if hold else Outcome.DEPLOYED,
            begins=at,
            ends=slot.at,
            waits=tuple(waits),
            waited_for=released if at > opened else "",
            services=services,
            hold=hold,
        )

    def _budget(self, at: datetime) -> str:
        """Return why nothing begins any more from ``at`` on; empty if it does."""
        failed = [one.cluster for one in self._failed if one.at <= at]
        if len(failed) <= self._allowed:
            return ""
        return f"{len(failed)} clusters have failed ({listed(failed)}), {self._allowed} may"

    def _stop_at_budget(self, wave: Wave) -> None:
        """Take away the steps that would begin after the budget was spent in this wave."""
        if len(self._failed) <= self._allowed:
            return
        at = sorted(self._failed)[self._allowed].at
        why = self._budget(at)
        for name in wave.clusters:
            one = self.clusters[name]
            services = stopped(one.services, at, why)
            if one.begins is not None and one.ends is not None and one.ends > at and services != one.services:
                ends = max((plan.hops[-1].ends for plan in services if plan.hops), default=at)
                outcome = one.outcome if one.outcome is Outcome.FAILED else Outcome.HELD
                self.clusters[name] = replace(one, services=services, ends=ends, outcome=outcome, hold=one.hold or why)


def _moves(cluster: ClusterIntents) -> bool:
    """Say whether something would begin on a cluster, or count as failed there."""
    return any(one.steps or one.change is Change.REMOVE or one.failed for one in cluster.services)
