"""How a fleet's plan is told: tables for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from windlass.cli.output import rows
from windlass.domain.servicesets.holds import listed
from windlass.domain.servicesets.rollout.critical import Segment, critical_path
from windlass.domain.servicesets.rollout.plan import ClusterPlan, Outcome, Plan, WavePlan
from windlass.domain.servicesets.rollout.review import Finding
from windlass.domain.servicesets.rollout.timeline import Hop, ServicePlan, Wait
from windlass.domain.text.durations import show_duration

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS: Final = {
    Outcome.NOTHING: "dim",
    Outcome.DEPLOYED: "green",
    Outcome.FAILED: "red",
    Outcome.HELD: "yellow",
    Outcome.NOT_BEGUN: "yellow",
}


def report(
    plan: Plan, findings: Sequence[Finding], left_out: Mapping[str, int], *, steps: bool
) -> Iterator[RenderableType]:
    """Yield the parts of a plan for people; with ``steps`` every single one."""
    yield _summary(plan)
    yield ""
    yield rows(
        ["WAVE", "CLUSTERS", "OPENS", "ENDS", "WAITS"],
        [
            [
                str(one.wave).removeprefix("wave "),
                listed(one.wave.clusters),
                _at(one.opens),
                _at(one.ends),
                _waits(one.waits),
            ]
            for one in plan.waves
        ],
    )
    yield ""
    yield rows(
        ["CLUSTER", "WAVE", "BEGINS", "ENDS", "STEPS", "OUTCOME", "WAITS"],
        [
            [
                one.name,
                str(one.wave),
                _at(one.begins),
                _at(one.ends),
                str(sum(len(service.hops) for service in one.services)),
                Text(one.outcome.value, _COLOURS[one.outcome]),
                _waits(one.waits),
            ]
            for one in plan.clusters
        ],
    )
    if steps:
        yield ""
        yield rows(
            ["CLUSTER", "SERVICE", "STEP", "BEGINS", "TAKES", "SAMPLES", "WAITS"],
            [_step(one, service, hop) for one in plan.clusters for service in one.services for hop in service.hops],
        )
    held = _holds(plan, each=steps)
    if held:
        yield ""
        yield rows(["HELD", "WHY"], held)
    if more := [one for one in findings if not any(str(one.error) in why for _, why in held)]:
        yield ""
        yield rows(["INVALID", "WHY"], [[listed(one.objects), str(one.error)] for one in more])
    if parts := critical_path(plan):
        yield ""
        yield rows(
            ["CRITICAL PATH", "TAKES", "WHERE", "WHAT"],
            [[_at(one.since), show_duration(one.until - one.since), one.cluster, _part(one)] for one in parts],
        )
    if left_out:
        yield ""
        yield Text(f"left out: {', '.join(f'{count} {kind}' for kind, count in sorted(left_out.items()))}", "dim")


def document(plan: Plan, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a plan for programs. Times are ISO 8601 in UTC or null, durations are seconds."""
    return {
        "now": plan.now.isoformat(),
        "ends": _iso(plan.ends),
        "complete": plan.complete,
        "waves": [_wave(one) for one in plan.waves],
        "clusters": [_cluster(one) for one in plan.clusters],
        "invalid": [
            {
                "objects": list(one.objects),
                "reason": one.error.reason.value,
                "message": one.error.message,
                "hint": one.error.hint,
            }
            for one in findings
        ],
        "criticalPath": [
            {
                "since": one.since.isoformat(),
                "until": one.until.isoformat(),
                "gate": one.gate.value if one.gate else None,
                "cluster": one.cluster or None,
                "text": one.text,
            }
            for one in critical_path(plan)
        ],
    }


def _summary(plan: Plan) -> Text:
    services = [service for one in plan.clusters for service in one.services]
    hops = sum(len(service.hops) for service in services)
    what = f"{_many(len(services), 'service')} on {_many(len(plan.clusters), 'cluster')}, {_many(hops, 'step')}"
    if plan.ends is None:
        when = "nothing begins"
    else:
        when = f"the last one ends {_at(plan.ends)} UTC, {show_duration(plan.ends - plan.now)} after {_at(plan.now)}"
    verdict = Text("complete", "green") if plan.complete else Text("does not complete", "red")
    return Text.assemble(f"{what}; {when}: ", verdict)


def _holds(plan: Plan, *, each: bool) -> list[list[str]]:
    """Return what does not get to where it should and why, services first; if not ``each``, every reason once."""
    ended = [one for one in plan.clusters if one.outcome is not Outcome.NOT_BEGUN]
    services = [
        (f"{one.name} {service.intent.service}", service.hold) for one in ended for service in one.services
        if service.hold
    ]  # fmt: skip
    clusters = [(one.name, one.hold) for one in plan.clusters if one.outcome is Outcome.NOT_BEGUN]
    if each:
        return [[name, why] for name, why in (*services, *clusters)]
    found: dict[str, list[str]] = {}
    for name, why in (*services, *clusters):
        found.setdefault(why, []).append(name)
    return [[listed(names), why] for why, names in found.items()]


def _step(cluster: ClusterPlan, service: ServicePlan, hop: Hop) -> list[str]:
    wait = [one for one in (service.wait if hop is _first(service) else None, hop.wait) if one is not None]
    return [
        cluster.name,
        str(service.intent.service),
        f"{hop.start or '(new)'} -> {hop.end or '(removed)'}",
        _at(hop.begins),
        show_duration(hop.ends - hop.begins),
        str(hop.samples) if hop.samples else "default",
        _waits(wait),
    ]


def _first(service: ServicePlan) -> Hop | None:
    """Return the first step that was not under way already: the one that waits for dependencies."""
    later = service.hops[1:] if service.intent.under_way is not None else service.hops
    return next(iter(later), None)


def _part(segment: Segment) -> Text:
    return Text(segment.text, "" if segment.gate is None else "yellow")


def _waits(waits: Sequence[Wait]) -> str:
    return ", ".join(
        f"{one.gate.value} {show_duration(one.until - one.since)}" if one.until else one.gate.value for one in waits
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else "-"


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _wave(one: WavePlan) -> dict[str, Any]:
    return {
        "number": one.wave.number,
        "canary": one.wave.canary,
        "clusters": list(one.wave.clusters),
        "opens": _iso(one.opens),
        "ends": _iso(one.ends),
        "waits": [_wait(wait) for wait in one.waits],
        "hold": one.hold or None,
    }


def _cluster(one: ClusterPlan) -> dict[str, Any]:
    return {
        "name": one.name,
        "wave": one.wave,
        "outcome": one.outcome.value,
        "begins": _iso(one.begins),
        "ends": _iso(one.ends),
        "waits": [_wait(wait) for wait in one.waits],
        "hold": one.hold or None,
        "services": [_service(service) for service in one.services],
    }


def _service(one: ServicePlan) -> dict[str, Any]:
    intent = one.intent
    return {
        "namespace": intent.service.namespace,
        "name": intent.service.name,
        "multiClusterService": intent.owner or None,
        "change": intent.change.value,
        "current": intent.current._asdict() if intent.current else None,
        "desired": intent.desired._asdict() if intent.desired else None,
        "steps": [
            {
                "from": hop.start or None,
                "to": hop.end or None,
                "version": hop.version or None,
                "begins": hop.begins.isoformat(),
                "ends": hop.ends.isoformat(),
                "seconds": (hop.ends - hop.begins).total_seconds(),
                "samples": hop.samples,
                "waits": [_wait(hop.wait)] if hop.wait else [],
            }
            for hop in one.hops
        ],
        "waits": [_wait(one.wait)] if one.wait else [],
        "hold": one.hold or None,
    }


def _wait(wait: Wait) -> dict[str, Any]:
    return {"gate": wait.gate.value, "since": wait.since.isoformat(), "until": _iso(wait.until), "text": wait.text}
