"""Any chains, any changes of what is wanted, any states in any order: the rules hold at every step, and it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from domain.servicesets.simulator import Entries, World, older, options
from domain.servicesets.words import NAMESPACE
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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

edges = st.dictionaries(st.sampled_from(TEMPLATES), st.lists(st.sampled_from(TEMPLATES), max_size=3, unique=True))
one_service = st.sampled_from(SERVICES)
one_template = st.sampled_from(TEMPLATES)
states = st.sampled_from(["Deployed", "Provisioning", "Failed", "Pending", "Deleting", ""])


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.read: ServiceSetDecision | None = None

    @initialize(
        versions=st.fixed_dictionaries({name: st.sampled_from(VERSIONS) for name in TEMPLATES}),
        graphs=st.fixed_dictionaries(dict.fromkeys(CHAINS, edges)),
        say=st.sampled_from(["versions", "nothing", "something else"]),
        whole=st.booleans(),
        broken=st.sets(one_template, max_size=1),
    )
    def begin(
        self, versions: dict[str, str], graphs: dict[str, dict[str, list[str]]], say: str, whole: bool, broken: set[str]
    ) -> None:
        if whole:  # every template is listed, as in a valid chain
            graphs = {name: {one: graph.get(one, []) for one in TEMPLATES} for name, graph in graphs.items()}
        self.world = World(
            versions=versions,
            edges=graphs,
            templates=[template(name, version) for name, version in versions.items()],
            chains=[chain(name, graph, versions, say) for name, graph in graphs.items()],
            broken=broken,
        )

    # -- people --------------------------------------------------------------------------------------------------------

    @rule(
        name=one_service, template=one_template, chain_name=st.sampled_from(["", *CHAINS]), values=st.sampled_from("xy")
    )
    def want(self, name: str, template: str, chain_name: str, values: str) -> None:
        before = self.world.desired.get(name, Service(name=name))
        self.world.desired[name] = before.changed(template=template, template_chain=chain_name, values=values)

    @precondition(lambda self: self.world.desired)
    @rule(data=st.data(), template=one_template)
    def want_another(self, data: st.DataObject, template: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.desired)))
        self.world.desired[name] = self.world.desired[name].changed(template=template)

    @precondition(lambda self: self.world.desired)
    @rule(data=st.data(), others=st.lists(one_service, max_size=2, unique=True), anything=st.booleans())
    def depend(self, data: st.DataObject, others: list[str], anything: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.desired)))
        kept = [other for other in others if anything or (other in self.world.desired and other < name)]
        service = Service.from_object({"dependsOn": [{"name": other} for other in kept]})
        self.world.desired[name] = self.world.desired[name].changed(depends_on=service.depends_on)

    @precondition(lambda self: self.world.desired)
    @rule(data=st.data(), disable=st.booleans())
    def disable(self, data: st.DataObject, disable: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.desired)))
        self.world.desired[name] = self.world.desired[name].changed(disable=disable)

    @precondition(lambda self: self.world.desired)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        del self.world.desired[data.draw(st.sampled_from(sorted(self.world.desired)))]

    # -- the provider --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.entries())
    @rule(data=st.data(), state=states, template=one_template, fresh=st.booleans())
    def report(self, data: st.DataObject, state: str, template: str, fresh: bool) -> None:
        entry = self.world.entries()[data.draw(st.sampled_from(sorted(self.world.entries())))]
        if fresh:
            self.world.report(entry.name, state, entry.template, entry.version)
        else:
            self.world.report(entry.name, state, template, self.world.versions[template] or template)

    @precondition(lambda self: self.world.entries())
    @rule()
    def deliver(self) -> None:
        self.world.deliver()

    # -- Windlass ------------------------------------------------------------------------------------------------------

    @rule()
    def tick(self) -> None:
        decision = self.decide()
        if decision is not None:
            before = self.world.entries()
            self.check_step(before, decision)
            assert self.world.write(decision)
            self.check_again()

    @rule()
    def look(self) -> None:
        """Decide on what is there now, and write later."""
        self.read = self.decide()

    @precondition(lambda self: self.read is not None)
    @rule()
    def write_late(self) -> None:
        assert self.read is not None
        before, revision = self.world.held, self.world.revision
        taken = self.world.write(self.read)
        moved = before is not None and (
            self.read.service_set.metadata.resource_version != before.metadata.resource_version
        )
        if moved and self.read.operation is not ServiceSetOperation.NONE:
            assert not taken
            assert self.world.revision == revision
        self.read = None

    @rule()
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
        pytest.fail(f"no end: {decision.service_set.to_object()}")

    # -- what holds ----------------------------------------------------------------------------------------------------

    def decide(self) -> ServiceSetDecision | None:
        """Decide; None where something is wrong, which is then just what the decision says."""
        if wrong := self.world.lacks():
            with pytest.raises(wrong):
                self.world.decide()
            return None
        return self.world.decide()

    def check_step(self, before: Entries, decision: ServiceSetDecision) -> None:
        world = self.world
        after = {entry.name: entry for entry in decision.service_set.spec.services}
        assert len(after) == len(decision.service_set.spec.services)
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
            elif (entry.template, entry.version) != (old.template, old.version):
                assert world.settled(name), f"{name} moved before it had arrived"
                assert not wanted.disable
                assert world.may_move(old, entry), f"{name} went from {old.template} to {entry.template}"

    def check_again(self) -> None:
        again = self.decide()
        if again is not None:  # the hop may have led out of an invalid chain
            assert again.operation is ServiceSetOperation.NONE

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

    @invariant()
    def what_is_stored_has_a_version(self) -> None:
        if hasattr(self, "world"):
            assert all(entry.version and entry.namespace == "default" for entry in self.world.entries().values())


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


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
