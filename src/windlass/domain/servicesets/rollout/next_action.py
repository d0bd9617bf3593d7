"""From what is seen of the clusters to the one next decision. Pure: the same question has the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from windlass.domain.servicesets.holds import listed
from windlass.domain.servicesets.rollout.policy import rounded_down, rounded_up
from windlass.domain.servicesets.rollout.state import (
    Action,
    ActionKind,
    ClusterState,
    Decision,
    Gate,
    Hold,
    Observed,
    Phase,
    Rollout,
)
from windlass.domain.servicesets.rollout.waves import Wave
from windlass.domain.servicesets.rollout.windows import opening_from
from windlass.domain.text.durations import show_duration


def next_actions(rollout: Rollout, observed: Mapping[str, Observed], now: datetime) -> Decision:
    """Say which clusters begin a step now, why no others do, and when to look again.

    - A wave begins when every cluster of those before it has ended (deployed, failed within the budget, or gone), has
      soaked since, and has been approved where the policy asks for it.
    - A cluster begins a step, its first or a later one, only inside its window. What is under way is never stopped.
    - More failed clusters than the budget, and nothing begins any more. The count is of what is seen now: when a failed
      cluster is mended, the rollout goes on.
    - A cluster that takes a slot keeps it until it ends, is held or is gone.

    Args:
        rollout: what is remembered.
        observed: each cluster as it is seen now. Nothing begins on one that is missing here.
        now: the time, with a time zone.

    Returns:
        The decision. Carry out its actions and remember its ``rollout`` before the next question; a cluster that was
        told to start is not told again, also while it is still seen waiting.
    """
    return _Round(rollout, observed, now).decide()


class _Round:
    """One question: what is seen, sorted, and what has been decided so far."""

    def __init__(self, rollout: Rollout, observed: Mapping[str, Observed], now: datetime) -> None:
        self.observed = observed
        self.now = now
        clusters = [name for wave in rollout.waves for name in wave.clusters]
        self.failed = [
            name for name in clusters if name in rollout.started and self._state(name) is ClusterState.FAILED
        ]
        settled = {
            name: rollout.settled.get(name, now)
            for name in clusters
            if name in rollout.started and self._state(name) in {ClusterState.DEPLOYED, ClusterState.FAILED}
        }
        self.rollout = replace(rollout, settled=settled)
        self.active = sum(self._takes_slot(name) for name in clusters)
        self.slots = rounded_up(rollout.policy.max_concurrent, len(clusters))
        self.started = dict(rollout.started)
        self.actions: list[Action] = []
        self.holds: list[Hold] = []
        self.total = len(clusters)

    def decide(self) -> Decision:
        current = next((wave for wave in self.rollout.waves if not self._over(wave)), None)
        spent = self._budget()
        begun = [name for wave in self.rollout.waves for name in wave.clusters if self._is_between(name)]
        if current is not None:
            self._stuck(current)
            pending = [name for name in current.clusters if self._is_pending(name)]
            if spent is not None:
                self.holds.append(replace(spent, clusters=(*begun, *pending)))
            else:
                self._continue(begun)
                if pending and self._wave_open(current, pending):
                    self._start(current, pending)
            self._progress(current)
        elif spent is not None:
            self.holds.append(replace(spent, clusters=tuple(self.failed)))
        return self._decision(current)

    def _decision(self, current: Wave | None) -> Decision:
        times = [hold.until for hold in self.holds if hold.until is not None]
        if current is None:
            phase = Phase.HELD if self.holds else Phase.COMPLETE
        elif self.actions or any(hold.gate is Gate.PROGRESS for hold in self.holds):
            phase = Phase.PROGRESSING
        else:
            phase = Phase.WAITING if times else Phase.HELD
        return Decision(
            rollout=replace(self.rollout, started=self.started),
            phase=phase,
            actions=tuple(self.actions),
            holds=tuple(self.holds),
            look_again=min(times, default=None),
        )

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _state(self, name: str) -> ClusterState | None:
        seen = self.observed.get(name)
        return None if seen is None else seen.state

    def _takes_slot(self, name: str) -> bool:
        state = self._state(name)
        if name not in self.rollout.started:
            return state is ClusterState.RUNNING
        return state in {None, ClusterState.WAITING, ClusterState.RUNNING, ClusterState.BETWEEN}

    def _is_pending(self, name: str) -> bool:
        return name not in self.rollout.started and self._state(name) in {
            ClusterState.WAITING,
            ClusterState.BETWEEN,
            ClusterState.FAILED,
        }

    def _is_between(self, name: str) -> bool:
        return name in self.rollout.started and self._state(name) is ClusterState.BETWEEN

    def _over(self, wave: Wave) -> bool:
        ended = {ClusterState.DEPLOYED, ClusterState.GONE}
        return all(self._state(name) in ended or name in self.rollout.settled for name in wave.clusters)

    # -- gates ---------------------------------------------------------------------------------------------------------

    def _budget(self) -> Hold | None:
        allowed = rounded_down(self.rollout.policy.failure_budget, self.total)
        if len(self.failed) <= allowed:
            return None
        return Hold(
            Gate.BUDGET,
            (),
            f"{len(self.failed)} of {self.total} clusters failed ({listed(self.failed)}), {allowed} may:"
            " nothing begins until they are mended or the budget is raised",
        )

    def _wave_open(self, wave: Wave, pending: list[str]) -> bool:
        closed = [*self._soak(wave), *self._approval(wave)]
        self.holds += [replace(hold, clusters=tuple(pending)) for hold in closed]
        return not closed

    def _soak(self, wave: Wave) -> Iterable[Hold]:
        before = {name for one in self.rollout.waves[: wave.number - 1] for name in one.clusters}
        ends = [at for name, at in self.rollout.settled.items() if name in before]
        soak = self.rollout.policy.soak
        if ends and (until := max(ends) + soak) > self.now:
            yield Hold(
                Gate.SOAK,
                (),
                f"{wave} waits until what went before has run for {show_duration(soak)}, at {_shown(until)}",
                until,
            )

    def _approval(self, wave: Wave) -> Iterable[Hold]:
        after_canary = self.rollout.waves[0].canary
        needed = self.rollout.policy.approval_needed(wave.number, after_canary=after_canary)
        if needed and wave.number not in self.rollout.approved:
            yield Hold(Gate.APPROVAL, (), f"{wave} waits until somebody approves it")

    def _allowed_now(self, names: Iterable[str]) -> list[str]:
        """Return those that are inside their window; the others are held, in groups that wait for the same."""
        inside: list[str] = []
        outside: dict[datetime | None, list[str]] = {}
        for name in names:
            windows = self.rollout.policy.windows_of(self.rollout.labels.get(name, {}))
            opening = None if windows is None else opening_from(windows, self.now)
            if windows is None or (opening is not None and opening.start <= self.now):
                inside.append(name)
            else:
                outside.setdefault(None if opening is None else opening.start, []).append(name)
        for until, held in outside.items():
            reason = (
                f"no window ever opens for {listed(held)}: add one that selects them"
                if until is None
                else f"the window of {listed(held)} opens at {_shown(until)}"
            )
            self.holds.append(Hold(Gate.WINDOW, tuple(held), reason, until))
        return inside

    # -- what is decided -----------------------------------------------------------------------------------------------

    def _continue(self, begun: list[str]) -> None:
        for name in self._allowed_now(begun):
            self.actions.append(Action(ActionKind.CONTINUE, name, "its last step is done, and its window is open"))

    def _start(self, wave: Wave, pending: list[str]) -> None:
        ready = self._allowed_now(pending)
        free = max(self.slots - self.active, 0)
        for name in ready[:free]:
            self.actions.append(Action(ActionKind.START, name, f"{wave} has begun, and a slot is free"))
            self.started[name] = self.now
        self.active += len(ready[:free])
        if left := ready[free:]:
            self.holds.append(
                Hold(
                    Gate.CONCURRENCY,
                    tuple(left),
                    f"{self.active} of at most {self.slots} clusters are under way; {listed(left)} wait",
                )
            )

    def _stuck(self, wave: Wave) -> None:
        for name in wave.clusters:
            seen = self.observed.get(name)
            if seen is None:
                self.holds.append(Hold(Gate.OBSERVATION, (name,), f"nothing is known of cluster {name}"))
            elif seen.state is ClusterState.HELD:
                why = f": {seen.message}" if seen.message else ""
                self.holds.append(Hold(Gate.CLUSTER, (name,), f"cluster {name} cannot go on by itself{why}"))

    def _progress(self, wave: Wave) -> None:
        told = {action.cluster for action in self.actions}
        under_way = [
            name
            for one in self.rollout.waves
            for name in one.clusters
            if name in self.observed and (name in told or (self._takes_slot(name) and not self._is_between(name)))
        ]
        if under_way:
            self.holds.append(Hold(Gate.PROGRESS, tuple(under_way), f"{wave}: {listed(under_way)} are under way"))


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} {at.tzname()}"
