"""Any chains, any changes of what is wanted, any states in any order: the rules hold at every step, and it ends."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from domain.servicesets.simulator import Entries, World, older, options
from domain.servicesets.words import NAMESPACE
from hypothesis import event, given, settings
from hypothesis import strategies as st

from windlass.domain.servicesets.models import ServiceDependsOn
from windlass.servicesets import (
    Hold,
    HoldReason,
    Service,
    ServiceSetDecision,
    ServiceSetOperation,
    ServiceTemplate,
    ServiceTemplateChain,
)

SERVICES = ["a", "b", "c", "d"]
TEMPLATES = ["t0", "t1", "t2", "t3", "t4"]
CHAINS = ["up", "round"]
VERSIONS = ["", "1.0.0", "1.9.0", "1.10.0", "2.0.0", "2.0.0", "nightly"]

one_service = st.sampled_from(SERVICES)
one_template = st.sampled_from(TEMPLATES)
one_chain = st.sampled_from(["", *CHAINS, *CHAINS])
states = st.sampled_from(["Deployed", "Deployed", "Provisioning", "Failed", "Pending", ""])
dependencies = st.lists(one_service, max_size=2, unique=True)

type Graph = dict[str, list[str]]


@st.composite
def graphs(draw: st.DrawFn, *, whole: bool) -> Graph:
    """A way through some templates in any order, others beside it; not whole: perhaps a template is not listed."""
    way = draw(st.permutations(TEMPLATES))
    others = draw(st.lists(st.tuples(one_template, one_template), max_size=4))
    ways = list(itertools.pairwise(way))
    missing = "" if whole else draw(st.sampled_from(["", "", "", *TEMPLATES]))
    graph: Graph = {name: [] for name in TEMPLATES if name != missing}
    for start, end in dict.fromkeys([*others, *ways[: draw(st.integers(1, 4))]]):
        if start != missing:
            graph[start].append(end)
    return graph


@dataclass(frozen=True)
class Change:
    """What somebody does to one service; ``kind`` says which of the values count."""

    kind: str
    name: str
    template: str
    chain: str
    others: tuple[str, ...]
    version: str = ""

    def happen(self, desired: dict[str, Service]) -> None:
        service = desired.get(self.name, Service(name=self.name))
        match self.kind:
            case "want":
                service = service.changed(template=self.template, values=self.chain or "none")
            case "want along":
                service = service.changed(template=self.template, template_chain=self.chain)
            case "pin":
                service = service.changed(version=self.version)
            case "depend":
                names = [name for name in self.others if name in desired and name < self.name]
                service = service.changed(depends_on=named(names))
            case "depend anyhow":
                service = service.changed(depends_on=named(self.others))
            case "switch":
                service = service.changed(disable=not service.disable)
            case _:
                desired.pop(self.name, None)
                return
        if service.template:
            desired[self.name] = service


KINDS = [*["want"] * 5, *["want along"] * 2, "pin", *["depend"] * 3, "depend anyhow", "switch", "remove"]


def changes_of(kind: str, name: str) -> st.SearchStrategy[Change]:
    return st.builds(
        Change, kind=st.just(kind), name=st.just(name), template=one_template, chain=one_chain, others=st.just(())
    )


changes = st.builds(
    Change,
    kind=st.sampled_from(KINDS),
    name=one_service,
    template=one_template,
    chain=one_chain,
    others=dependencies.map(tuple),
    version=st.sampled_from(["", "1.0.0", "1.10.0", "pinned"]),
)

reports = st.fixed_dictionaries({}, optional=dict.fromkeys(SERVICES, st.tuples(states, st.none() | one_template)))
"""What the provider says of some services: a state, of what is stored or of some other template."""


@st.composite
def worlds(draw: st.DrawFn, *, row: bool) -> World:
    """Templates, chains and services.

    In a row each depends on the one before, and nothing else is in the way: no broken template, no gap in a chain.
    """
    versions = {name: draw(st.sampled_from(VERSIONS)) for name in TEMPLATES}
    edges = {name: draw(graphs(whole=row)) for name in CHAINS}
    say = draw(st.sampled_from(["versions", "nothing", "something else"]))
    world = World(
        versions=versions,
        edges=edges,
        templates=[template(name, version) for name, version in versions.items()],
        chains=[chain(name, graph, versions, say) for name, graph in edges.items()],
        broken=set() if row else draw(st.sets(one_template, max_size=1)),
    )
    for place, name in enumerate(SERVICES):
        others = SERVICES[place - 1 : place] if row else [other for other in draw(dependencies) if other < name]
        service = Service(name=name, template=draw(one_template), template_chain=draw(one_chain))
        world.desired[name] = service.changed(depends_on=named(others))
    return world


type Round = tuple[list[Change], list[dict[str, Any]], bool]
"""What people change, what the provider says after that, and whether it then comes to its end undisturbed."""

rounds: st.SearchStrategy[Round] = st.tuples(
    st.lists(changes, min_size=1, max_size=4), st.lists(reports, max_size=4), st.booleans()
)


@st.composite
def lives(draw: st.DrawFn) -> tuple[World, list[Round]]:
    """A world and what happens in it.

    In a row two services are wanted elsewhere first, and those between them are left as they are: only so is it seen
    how far a dependency reaches that is not as it is wanted.
    """
    row = draw(st.booleans())
    story = draw(st.lists(rounds, min_size=0 if row else 1, max_size=4))
    if row:
        names = draw(st.sampled_from(["ad", "ad", "ac", "bd"]))
        story = [([draw(changes_of("want", name)) for name in names], [], True), *story]
    return draw(worlds(row=row)), story


@pytest.mark.timeout(900)  # to find the smallest example of a failure takes its time
@settings(max_examples=100)
@given(lives())
def test_a_life(one: tuple[World, list[Round]]) -> None:
    live(*one)


def live(world: World, story: list[Round]) -> None:
    life = Life(world)
    life.settle()
    for changed, beats, ends in story:
        for change in changed:
            change.happen(world.desired)
        for beat in beats:
            late = life.decide()
            life.tick()
            world.report({name: told for name, told in beat.items() if name in world.entries()})
            life.write_late(late)
        if ends:
            life.settle()
    life.settle()


class Life:
    """Decides, looks at what is decided, and carries it out."""

    def __init__(self, world: World) -> None:
        self.world = world

    def tick(self) -> None:
        decision = self.decide()
        if decision is None:
            return
        self.check_step(self.world.entries(), decision)
        assert self.world.write(decision)
        again = self.decide()
        if again is not None:  # a hop may lead out of a chain that is not valid
            assert again.operation is ServiceSetOperation.NONE

    def write_late(self, decision: ServiceSetDecision | None) -> None:
        """A decision on what was there before is refused when it is no longer so."""
        if decision is None or decision.operation is ServiceSetOperation.NONE:
            return
        read, now = decision.service_set, self.world.held
        moved = now is not None and read.metadata.resource_version != now.metadata.resource_version
        assert self.world.write(decision) is not moved
        assert not moved or self.world.held is now

    def settle(self) -> None:
        """Nobody changes anything and the provider does its work: it ends, and whoever is not there has a reason."""
        for _ in range(len(SERVICES) * (len(TEMPLATES) + 2) + 2):
            self.world.deliver()
            decision = self.decide()
            if decision is None:
                return
            if decision.operation is ServiceSetOperation.NONE:
                self.check_end(decision)
                return
            self.check_step(self.world.entries(), decision)
            assert self.world.write(decision)
        pytest.fail("no end")

    # -- what holds ----------------------------------------------------------------------------------------------------

    def decide(self) -> ServiceSetDecision | None:
        """Decide; None where something is wrong, which is then just what the decision says."""
        if wrong := self.world.lacks():
            with pytest.raises(wrong):
                self.world.decide()
            return None
        decision = self.world.decide()
        assert {entry.name: entry for entry in decision.service_set.spec.services} == self.world.in_parts()
        return decision

    def check_step(self, before: Entries, decision: ServiceSetDecision) -> None:
        world = self.world
        after = {entry.name: entry for entry in decision.service_set.spec.services}
        assert len(after) == len(decision.service_set.spec.services)
        assert all(entry.version and entry.namespace == "default" for entry in after.values())
        assert after.keys() <= world.desired.keys()
        assert before.keys() & world.desired.keys() <= after.keys(), "what is wanted and there stays there"
        for name, entry in after.items():
            old, wanted = before.get(name), world.desired[name]
            if entry != old:
                assert world.free(name), f"{name} moved past a dependency"
                assert options(entry) == options(wanted)
            if old is None:
                assert (entry.template, entry.version) == (wanted.template, world.version(wanted))
                assert not wanted.disable
                event("install")
            elif (entry.template, entry.version) != (old.template, old.version):
                event("move" if entry.template == wanted.template else "hop on the way")
                assert world.settled(name), f"{name} moved before it had arrived"
                assert not wanted.disable
                assert world.may_move(old, entry), f"{name} went from {old.template} to {entry.template}"

    def check_end(self, decision: ServiceSetDecision) -> None:
        held = {hold.service.name: hold for hold in decision.holds}
        entries = self.world.entries()
        for name, wanted in self.world.desired.items():
            entry = entries.get(name)
            there = (
                entry is not None
                and (entry.template, entry.version) == (wanted.template, self.world.version(wanted))
                and options(entry) == options(wanted)
            )
            assert there != (name in held), f"{name}: {held.get(name)}"
            if name in held:
                event(f"ends with {held[name].reason}")
                self.check_reason(held[name], wanted)

    def check_reason(self, hold: Hold, wanted: Service) -> None:
        world, name = self.world, hold.service.name
        match hold.reason:
            case HoldReason.DEPENDENCY_NOT_READY | HoldReason.DEPENDENCY_CYCLE:
                assert not world.free(name)
                assert {one.name for one in hold.blockers} <= {one.name for one in wanted.depends_on}
                assert hold.blockers
            case HoldReason.UPGRADE_IN_FLIGHT:
                assert world.entries()[name].template in world.broken
            case HoldReason.NO_UPGRADE_ROUTE:
                entry = world.entries()[name]
                assert not world.reaches(wanted.template_chain, entry.template, wanted.template)
                assert not older(world.version(wanted), entry.version)
            case HoldReason.DISABLED:
                assert wanted.disable


def named(names: Sequence[str]) -> tuple[ServiceDependsOn, ...]:
    return tuple(ServiceDependsOn(name=name) for name in names)


def template(name: str, version: str) -> ServiceTemplate:
    spec: dict[str, Any] = {"version": version} if version else {}
    return ServiceTemplate.from_object({"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec})


def chain(name: str, graph: Mapping[str, Sequence[str]], versions: Mapping[str, str], say: str) -> ServiceTemplateChain:
    """A chain that says the versions of its templates, or none, or others."""

    def upgrade(target: str) -> dict[str, str]:
        said = {"versions": versions[target], "nothing": "", "something else": f"edge-{target}"}[say]
        return {"name": target, "version": said} if said else {"name": target}

    return ServiceTemplateChain.from_object(
        {
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {
                "supportedTemplates": [
                    {"name": start, "availableUpgrades": [upgrade(end) for end in ends]}
                    for start, ends in graph.items()
                ]
            },
        }
    )
