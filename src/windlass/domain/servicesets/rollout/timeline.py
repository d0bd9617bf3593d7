"""When every step on one cluster would begin and end, from the moment that the cluster may begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from windlass.domain.servicesets.chains import UpgradeStep
from windlass.domain.servicesets.rollout.fleet import Change, ClusterIntents, Intent, Owned
from windlass.domain.servicesets.rollout.predictions import Predictions
from windlass.domain.servicesets.rollout.state import Gate
from windlass.domain.servicesets.rollout.windows import Opening, Window, opening_from


class Wait(NamedTuple):
    """A time in which something could have gone on but for a gate.

    Attributes:
        gate: which one.
        since: from when.
        until: when it opened; None if it never does.
        text: what was waited for.
    """

    gate: Gate
    since: datetime
    until: datetime | None
    text: str


class Hop(NamedTuple):
    """One step of one service.

    Attributes:
        start: template before it; empty for an installation.
        end: template after it; empty for a removal.
        version: after it.
        begins: when it begins.
        ends: when it is predicted to be deployed.
        samples: past steps behind the prediction; 0 for the default.
        wait: the window it waited for.
    """

    start: str
    end: str
    version: str
    begins: datetime
    ends: datetime
    samples: int
    wait: Wait | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServicePlan:
    """What a service would do.

    Attributes:
        intent: what is to be done.
        hops: its steps, one after another.
        wait: for dependencies, if there was one.
        waited_for: place in the cluster's list of the dependency that ended last.
        hold: why it does not get to what is desired; empty if it does.
        ready: when what depends on it may go on: it and all it depends on are as desired; None if never.
    """

    intent: Intent
    hops: tuple[Hop, ...]
    wait: Wait | None
    waited_for: int | None
    hold: str
    ready: datetime | None


class Calendar:
    """The windows of one cluster or of several with the same ones; remembers the last opening."""

    def __init__(self, windows: Sequence[Window] | None) -> None:
        """Take the windows; None means that it is always open."""
        self._windows = windows
        self._last: Opening | None = None

    def opens(self, at: datetime) -> datetime | None:
        """Return the first time from ``at`` on at which a step may begin; None if it never may."""
        if self._windows is None:
            return at
        last = self._last
        if last is None or not last.start <= at < last.end:
            last = self._last = opening_from(self._windows, at)
        return None if last is None else max(at, last.start)


def finishing(cluster: ClusterIntents, now: datetime, predictions: Predictions) -> datetime:
    """Return when the last step that is under way already, before the rollout, would end; ``now`` if there is none."""
    ends = (
        now + predictions.of(one.under_way.name, one.under_way.name).duration
        for one in cluster.services
        if one.under_way is not None and not one.failed
    )
    return max(ends, default=now)


def timeline(
    cluster: ClusterIntents, begins: datetime, now: datetime, calendar: Calendar, predictions: Predictions
) -> tuple[ServicePlan, ...]:
    """Return the plan of each service, in the cluster's order. Linear in services, their dependencies and steps.

    Services move beside each other, each as soon as all that it depends on is as desired, and every step begins
    inside the window. What is under way at ``now`` ends whatever the windows say.

    Args:
        cluster: what is to be done.
        begins: when the rollout lets the cluster begin.
        now: when what is under way is thought to have begun.
        calendar: its windows.
        predictions: how long steps take.
    """
    plans: list[ServicePlan] = []
    ready_of: dict[str, tuple[datetime | None, str]] = {}
    for owned in cluster.owners:
        since, hold = _owner_ready(owned, begins, ready_of)
        walk = _Walk(since, owned.hold or hold, begins, now, calendar, predictions)
        for number in range(owned.first, owned.first + owned.count):
            plans.append(walk.service(cluster.services[number], plans))
        ready_of[owned.name] = _ready_together(plans[owned.first :], begins, owned)
    return tuple(plans)


def stopped(plans: Iterable[ServicePlan], at: datetime, hold: str) -> tuple[ServicePlan, ...]:
    """Return plans without the steps that would begin at ``at`` or later; ``hold`` says why."""
    made: list[ServicePlan] = []
    for plan in plans:
        kept = tuple(hop for hop in plan.hops if hop.begins < at)
        cut = len(kept) < len(plan.hops)
        made.append(replace(plan, hops=kept, hold=plan.hold or hold, ready=None) if cut else plan)
    return tuple(made)


def _owner_ready(
    owned: Owned, begins: datetime, ready_of: dict[str, tuple[datetime | None, str]]
) -> tuple[datetime, str]:
    since = begins
    for other in owned.after:
        ready, hold = ready_of.get(other, (None, ""))
        if ready is None:
            return begins, f"MultiClusterService {other} is not deployed here: {hold}"
        since = max(since, ready)
    return since, ""


def _ready_together(plans: Sequence[ServicePlan], begins: datetime, owned: Owned) -> tuple[datetime | None, str]:
    hold = owned.hold or next((plan.hold for plan in plans if plan.hold), "")
    ends = [plan.ready for plan in plans if plan.ready is not None]
    if hold or len(ends) < len(plans):
        return None, hold
    return max(ends, default=begins), ""


class _Walk:
    """The services of one owner, one after another."""

    def __init__(
        self,
        since: datetime,
        hold: str,
        begins: datetime,
        now: datetime,
        calendar: Calendar,
        predictions: Predictions,
    ) -> None:
        self._since = since
        self._hold = hold
        self._begins = begins
        self._now = now
        self._calendar = calendar
        self._predictions = predictions

    def service(self, intent: Intent, before: Sequence[ServicePlan]) -> ServicePlan:
        hops: list[Hop] = []
        at = self._now
        if intent.under_way is not None and not intent.failed:
            step = intent.under_way
            at = self._add(hops, step.name, step, self._now, None)
        behind = bool(intent.steps) or intent.change is Change.REMOVE
        if self._hold:
            held = self._hold if behind or intent.hold else ""
            return self._plan(intent, hops, held or intent.hold, ready=None)
        if intent.change is Change.REMOVE:
            return self._walked(intent, hops, (UpgradeStep("", ""),), self._since, None, None)
        cleared, last, blocker = self._cleared(intent, before)
        if intent.hold or (blocker and behind):
            return self._plan(intent, hops, intent.hold or blocker, ready=None)
        if blocker or intent.disabled:
            return self._plan(intent, hops, "", ready=None)
        wait = None
        if behind and cleared > max(at, self._begins):
            name = f"service {before[last].intent.service}" if last is not None else "what its owner depends on"
            wait = Wait(Gate.DEPENDENCY, max(at, self._begins), cleared, f"for {name}")
        return self._walked(intent, hops, intent.steps, max(at, cleared), wait, last)

    def _cleared(self, intent: Intent, before: Sequence[ServicePlan]) -> tuple[datetime, int | None, str]:
        """Return from when on dependencies allow it, which one ends last, and which one never does."""
        cleared, last = self._since, None
        if intent.cycle:
            return cleared, None, intent.cycle
        for place in intent.after:
            ready = before[place].ready
            if ready is None:
                other = before[place].intent
                held = before[place].hold or other.cycle or ("it is disabled" if other.disabled else "it waits itself")
                return cleared, place, f"service {before[place].intent.service} is held: {held}"
            if ready > cleared:
                cleared, last = ready, place
        return cleared, last, ""

    def _walked(
        self,
        intent: Intent,
        hops: list[Hop],
        steps: Sequence[UpgradeStep],
        at: datetime,
        wait: Wait | None,
        last: int | None,
    ) -> ServicePlan:
        ready = at
        here = intent.current.name if intent.current else ""
        for step in steps:
            opens = self._calendar.opens(at)
            if opens is None:
                hold = "no window ever opens for this cluster"
                return self._plan(intent, hops, hold, ready=None, wait=wait, last=last)
            shut = Wait(Gate.WINDOW, at, opens, "for the window") if opens > at else None
            at = self._add(hops, here, step, opens, shut)
            here = step.name
        # Other values make no new version: nobody waits for them.
        gating = intent.change not in {Change.UPDATE, Change.REMOVE}
        return self._plan(intent, hops, "", ready=at if gating else ready, wait=wait, last=last)

    def _add(self, hops: list[Hop], start: str, step: UpgradeStep, begins: datetime, wait: Wait | None) -> datetime:
        duration, samples = self._predictions.of(start, step.name)
        ends = begins + duration
        hops.append(Hop(start, step.name, step.version, begins, ends, samples, wait))
        return ends

    @staticmethod
    def _plan(
        intent: Intent,
        hops: list[Hop],
        hold: str,
        *,
        ready: datetime | None,
        wait: Wait | None = None,
        last: int | None = None,
    ) -> ServicePlan:
        return ServicePlan(intent=intent, hops=tuple(hops), wait=wait, waited_for=last, hold=hold, ready=ready)
