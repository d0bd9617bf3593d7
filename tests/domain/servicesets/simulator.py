"""A cluster with a provider, for whole lives of one ServiceSet: people change what is wanted, states come in any order.

The rules that every decision has to keep are written here a second time, in the plainest way, from the documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.servicesets.words import CLUSTER, NAMESPACE, PROVIDER, SYSTEM, cluster, own
from semver import Version

from windlass.servicesets import (
    AfterRefusal,
    DependencyNotDesiredError,
    Processor,
    Refusal,
    Service,
    ServiceSet,
    ServiceSetDecision,
    ServiceSetOperation,
    ServiceTemplate,
    ServiceTemplateChain,
    ServiceWithValues,
    Snapshot,
    StateManagementProviderConfig,
    UpgradePathsError,
    build_services_list,
    filter_service_dependencies,
    get_service_set_with_operation,
    resolve_service_versions,
    services_to_deploy,
    services_upgrade_paths,
    services_with_desired_chains,
)

type Entries = dict[str, ServiceWithValues]


@dataclass
class World:
    """Templates and chains stay; `desired` is what people want, `held` what the API server holds.

    Attributes:
        versions: template to its version; the name stands in for an empty one.
        edges: chain to template to the templates it may be upgraded to.
        broken: templates that never get well.
    """

    versions: Mapping[str, str]
    edges: Mapping[str, Mapping[str, Sequence[str]]]
    templates: Sequence[ServiceTemplate]
    chains: Sequence[ServiceTemplateChain]
    broken: set[str] = field(default_factory=set[str])
    desired: dict[str, Service] = field(default_factory=dict[str, Service])
    held: ServiceSet | None = None
    revision: int = 0

    # -- what is there -------------------------------------------------------------------------------------------------

    def entries(self) -> Entries:
        return {entry.name: entry for entry in self.held.spec.services} if self.held else {}

    def states(self) -> dict[str, Any]:
        return {state.name: state for state in self.held.status.services} if self.held else {}

    def snapshot(self) -> Snapshot:
        sets = [self.held] if self.held else []
        return Snapshot.of([PROVIDER, *self.templates, *self.chains, *sets])

    def version(self, service: Service) -> str:
        return service.version or self.versions[service.template] or service.template

    # -- what happens --------------------------------------------------------------------------------------------------

    def decide(self) -> ServiceSetDecision:
        return get_service_set_with_operation(self.snapshot(), own(cluster(*self.desired.values())))

    def in_parts(self) -> Entries:
        """The same decision by the functions of the contract, each on its own: those that list all routes, too."""
        snapshot, wanted = self.snapshot(), list(self.desired.values())
        held = self.held or ServiceSet.new(NAMESPACE, "edge")
        desired = resolve_service_versions(snapshot.templates, NAMESPACE, wanted)
        eligible = filter_service_dependencies(snapshot.service_sets, SYSTEM, None, CLUSTER, desired)
        with_chains = services_with_desired_chains(desired, held.spec.services)
        found = services_upgrade_paths(with_chains, NAMESPACE, snapshot.chains)
        assert not found.errors
        step = services_to_deploy(found.paths, eligible.services, held).services
        resolved = resolve_service_versions(snapshot.templates, NAMESPACE, step)
        return {one.name: one for one in build_services_list(held.spec.services, resolved, wanted)}

    def write(self, decision: ServiceSetDecision) -> bool:
        """Carry out a decision, perhaps one on what was read a while ago; say whether it was taken."""
        processor = Processor(
            provider_spec=StateManagementProviderConfig(name="x"), services=tuple(self.desired.values())
        )
        write = processor.create_or_update_service_set(decision.operation, decision.service_set)
        if write is None:
            return True
        if write.operation is ServiceSetOperation.CREATE and self.held is not None:
            assert write.after(Refusal.ALREADY_EXISTS) is AfterRefusal.AWAIT_EVENT
            return False
        if write.operation is ServiceSetOperation.UPDATE:
            assert self.held is not None
            if write.resource_version != self.held.metadata.resource_version:
                assert write.after(Refusal.CONFLICT) is AfterRefusal.AWAIT_EVENT
                return False
        status = self.held.to_object().get("status", {}) if self.held else {}
        self._hold({**write.manifest, "status": status})
        return True

    def report(self, told: Mapping[str, tuple[str, str | None]]) -> None:
        """The provider says in which state services are, of the stored template or of another one.

        What it said of others stays; of those that are gone it is forgotten.
        """
        assert self.held is not None or not told
        if self.held is None:
            return
        states = {one.name: one.to_object() for one in self.held.status.services if one.name in self.entries()}
        for name, (state, other) in told.items():
            entry = self.entries()[name]
            template, version = (other, self.versions[other] or other) if other else (entry.template, entry.version)
            states[name] = {
                "name": name,
                "namespace": "default",
                "state": state,
                "template": template,
                "version": version,
            }
        self._hold({**self.held.to_object(), "status": {"services": list(states.values())}})

    def deliver(self) -> None:
        """The provider deploys everything it can."""
        told = {name: "Failed" if one.template in self.broken else "Deployed" for name, one in self.entries().items()}
        self.report({name: (state, None) for name, state in told.items()})

    def _hold(self, document: dict[str, Any]) -> None:
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        self.held = ServiceSet.from_object({**document, "metadata": metadata})

    # -- the rules, once more ------------------------------------------------------------------------------------------

    def settled(self, name: str) -> bool:
        """The provider reports the stored template and version as deployed."""
        entry, state = self.entries().get(name), self.states().get(name)
        if entry is None or state is None or state.state != "Deployed":
            return False
        return (state.template, state.version) == (entry.template, entry.version)

    def satisfied(self, name: str) -> bool:
        entry = self.entries().get(name)
        wanted = self.desired[name]
        return (
            entry is not None
            and self.settled(name)
            and (entry.template, entry.version) == (wanted.template, self.version(wanted))
        )

    def free(self, name: str) -> bool:
        """All it depends on, directly or through others, is satisfied; nothing in a circle ever is free."""
        seen: set[str] = set()
        todo = [one.name for one in self.desired[name].depends_on]
        while todo:
            other = todo.pop()
            if not self.satisfied(other) or self._round(other):
                return False
            if other not in seen:
                seen.add(other)
                todo += [one.name for one in self.desired[other].depends_on]
        return not self._round(name)

    def _round(self, name: str) -> bool:
        return name in self._behind([one.name for one in self.desired[name].depends_on])

    def _behind(self, todo: list[str]) -> set[str]:
        seen: set[str] = set()
        while todo:
            other = todo.pop()
            if other not in seen:
                seen.add(other)
                todo += [one.name for one in self.desired[other].depends_on]
        return seen

    def reaches(self, chain: str, start: str, end: str) -> bool:
        seen, todo = set[str](), [start]
        while todo:
            for following in self.edges[chain].get(todo.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return end in seen

    def may_move(self, before: ServiceWithValues, after: ServiceWithValues) -> bool:
        """A settled, free service may go from ``before`` to ``after`` in one step."""
        wanted = self.desired[before.name]
        at_target = (after.template, after.version) == (wanted.template, self.version(wanted))
        if before.template == wanted.template or not wanted.template_chain:
            return at_target
        if self.reaches(wanted.template_chain, before.template, wanted.template):
            return after.template in self.edges[wanted.template_chain][before.template]
        return at_target and older(self.version(wanted), before.version)

    def lacks(self) -> type[Exception] | None:
        """What is wrong with what is wanted, so that nothing can be decided."""
        for service in self.desired.values():
            if any(one.name not in self.desired for one in service.depends_on):
                return DependencyNotDesiredError
        for name, entry in self.entries().items():
            chain = self.desired[name].template_chain if name in self.desired else ""
            if chain and entry.template not in self.edges.get(chain, {}):
                return UpgradePathsError
        return None


def older(one: str, other: str) -> bool:
    return Version.is_valid(one) and Version.is_valid(other) and Version.parse(one) < Version.parse(other)


def options(entry: ServiceWithValues | Service) -> tuple[Any, ...]:
    return entry.values, entry.values_from, entry.helm_options, entry.helm_action
