"""What a rollout has to do on each cluster: every service with its steps, and what holds it for good.

The rules are those of `windlass.domain.servicesets.resolve`; a test walks clusters with both and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.domain.servicesets.chain_graphs import ChainGraphs
from windlass.domain.servicesets.chains import Route, UpgradeStep
from windlass.domain.servicesets.components import circles, strongly_connected
from windlass.domain.servicesets.dependencies import states_of, stored_of
from windlass.domain.servicesets.errors import (
    DependencyCycleError,
    DependencyNotDesiredError,
    ServiceSetError,
    TemplateNotFoundError,
)
from windlass.domain.servicesets.keys import ObjectKey, ServiceKey, object_key, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    Service,
    ServiceState,
    ServiceWithValues,
    State,
)
from windlass.domain.servicesets.rollout.policy import selects
from windlass.domain.servicesets.snapshot import Snapshot, key_of
from windlass.domain.servicesets.versions import is_deployed, is_downgrade, template_version, version_or_template


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Clusters, what they should have, and what they have.

    Attributes:
        clusters: with their own services.
        multi_cluster_services: services for the clusters that each selects.
        snapshot: ServiceSets (what is there), templates and chains.
    """

    clusters: tuple[ClusterDeployment, ...]
    multi_cluster_services: tuple[MultiClusterService, ...] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)


class Change(StrEnum):
    """What happens to a service."""

    NONE = "None"
    INSTALL = "Install"
    UPGRADE = "Upgrade"
    UPDATE = "Update"  # the same template and version with other values
    REMOVE = "Remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """What is to be done with one service on one cluster.

    Attributes:
        owner: the MultiClusterService it comes from; empty for the cluster's own.
        service: which one.
        change: what happens to it.
        current: template and version that are stored; None before an installation.
        desired: template and version that are wanted; None for a removal.
        under_way: the step that has begun already.
        steps: the ones that follow.
        after: services of the same owner and cluster it waits for: their places in the cluster's list, all before it.
        hold: why it will not get to what is desired unless somebody acts; empty if it will.
        failed: whether that is a failure that counts against the budget.
        disabled: whether it stays away from what is desired because somebody wants it so: no hold, but what depends
            on it waits for ever.
    """

    owner: str
    service: ServiceKey
    change: Change
    current: UpgradeStep | None = None
    desired: UpgradeStep | None = None
    under_way: UpgradeStep | None = None
    steps: Route = ()
    after: tuple[int, ...] = ()
    hold: str = ""
    failed: bool = False
    disabled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Owned:
    """The services of one owner on a cluster.

    Attributes:
        name: MultiClusterService; empty for the cluster's own services.
        first: place of its first service in the cluster's list.
        count: how many there are.
        after: other owners on this cluster whose services must all be deployed first.
        hold: why none of its services can be moved; empty if they can.
    """

    name: str
    first: int
    count: int
    after: tuple[str, ...] = ()
    hold: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterIntents:
    """What is to be done on one cluster.

    Attributes:
        name: ``namespace/name``.
        labels: of the cluster.
        services: each after all that it waits for within its owner.
        owners: each after all that it waits for.
    """

    name: str
    labels: Mapping[str, str]
    services: tuple[Intent, ...]
    owners: tuple[Owned, ...]


def intents(fleet: Fleet) -> tuple[ClusterIntents, ...]:
    """Return what is to be done on every cluster, in the fleet's order. Linear in services and their steps."""
    reader = _Reader(fleet)
    return tuple(reader.cluster(one) for one in fleet.clusters)


class _Reader:
    """Reads a fleet; keeps what several clusters share."""

    def __init__(self, fleet: Fleet) -> None:
        self._snapshot = fleet.snapshot
        self._sets = {key_of(one): one for one in fleet.snapshot.service_sets}
        self._owners, self._owner_holds = _ordered_owners(fleet.multi_cluster_services)
        self._graphs = ChainGraphs(fleet.snapshot.chains)
        self._routes: dict[tuple[ObjectKey, str, str], Route | None] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._orders = {
            one.metadata.name: _ordered(_by_key(one.spec.service_spec.services)) for one in fleet.multi_cluster_services
        }

    def cluster(self, cluster: ClusterDeployment) -> ClusterIntents:
        labels = cluster.metadata.labels
        owners = [one for one in self._owners if selects(one.spec.cluster_selector, labels)]
        here = {one.metadata.name for one in owners}
        services: list[Intent] = []
        owned: list[Owned] = []
        for owner in (None, *owners):
            name = owner.metadata.name if owner else ""
            wanted = (owner or cluster).spec.service_spec.services
            found, hold = self._owned(cluster, owner, wanted, len(services))
            after = tuple(one for one in owner.spec.depends_on if one in here) if owner else ()
            hold = self._owner_holds.get(name, "") or hold
            owned.append(Owned(name=name, first=len(services), count=len(found), after=after, hold=hold))
            services += found
        return ClusterIntents(name=str(key_of(cluster)), labels=labels, services=tuple(services), owners=tuple(owned))

    def _owned(
        self, cluster: ClusterDeployment, owner: MultiClusterService | None, wanted: Sequence[Service], first: int
    ) -> tuple[list[Intent], str]:
        """Return the services of one owner, and what keeps all of them where they are."""
        key = object_key("", cluster, owner)
        there = self._sets.get(key)
        stored, states = stored_of(there), states_of(there)
        desired = _by_key(wanted)
        order, problem = self._orders[owner.metadata.name] if owner else _ordered(desired)
        places = {one: first + number for number, one in enumerate(order)}
        found: list[Intent] = []
        for one in order:
            service = desired[one]
            after = tuple(
                place
                for other in service.depends_on
                if (place := places.get(service_key(other.namespace, other.name))) is not None
            )
            try:
                found.append(self._intent(key.namespace, owner, one, service, stored.get(one), states.get(one), after))
            except ServiceSetError as error:
                problem = problem or str(error)
                found.append(Intent(owner=_name(owner), service=one, change=Change.NONE, after=after, hold=str(error)))
        for gone, entry in stored.items():
            if gone not in desired:
                current = self._at(key.namespace, entry, gone)
                found.append(Intent(owner=_name(owner), service=gone, change=Change.REMOVE, current=current))
        return found, problem

    def _intent(
        self,
        namespace: str,
        owner: MultiClusterService | None,
        key: ServiceKey,
        service: Service,
        stored: ServiceWithValues | None,
        state: ServiceState | None,
        after: tuple[int, ...],
    ) -> Intent:
        """Return what is to be done with one desired service.

        Raises:
            ServiceSetError: its template or chain is missing, or the chain does not list the stored template.
        """
        desired = self._at(namespace, service, key)
        if stored is None and service.disable:
            return Intent(
                owner=_name(owner), service=key, change=Change.NONE, desired=desired, after=after, disabled=True
            )
        if stored is None:
            change, steps = Change.INSTALL, (desired,)
            return Intent(owner=_name(owner), service=key, change=change, desired=desired, steps=steps, after=after)
        current = self._at(namespace, stored, key)
        resolved = stored if stored.version else stored.changed(version=current.version)
        under_way = None if is_deployed(resolved, state) else current
        failed = under_way is not None and state is not None and state.state == State.FAILED
        if current == desired:
            change = Change.UPDATE if _with_other_options(stored, service) else Change.NONE
            # What is under way takes the new options with it.
            steps = (desired,) if change is Change.UPDATE and under_way is None else ()
            hold = ""
        else:
            change = Change.UPGRADE
            route = self._route(namespace, key, service, resolved, current, desired)
            steps = route or ()
            hold = (
                ""
                if route is not None
                else (f"chain {service.template_chain} has no route from {current.name} to {desired.name}")
            )
        if service.disable:
            hold, steps = "", ()
        if failed and state is not None:
            why = f": {state.failure_message}" if state.failure_message else ""
            hold = f"it failed at {current.version}{why}"
        return Intent(
            owner=_name(owner),
            service=key,
            change=Change.UPGRADE if under_way and change is Change.NONE else change,
            current=current,
            desired=desired,
            under_way=under_way,
            steps=steps,
            after=after,
            hold=hold,
            failed=failed,
            disabled=service.disable and change is Change.UPGRADE,
        )

    def _route(
        self,
        namespace: str,
        key: ServiceKey,
        service: Service,
        stored: ServiceWithValues,
        current: UpgradeStep,
        desired: UpgradeStep,
    ) -> Route | None:
        """Return the steps to what is desired; None if no route reaches it.

        Raises:
            ServiceSetError: as `_intent`.
        """
        route: Route | None = None
        if service.template_chain:
            chain = ObjectKey(namespace, service.template_chain)
            graph = self._graphs.at(chain, current.name, key)
            asked = (chain, current.name, desired.name)
            if asked not in self._routes:
                self._routes[asked] = self._resolved(namespace, graph.route(*asked[1:]), key)
            route = self._routes[asked]
        if current.name == desired.name or not service.template_chain:
            return (desired,)
        if route is None:
            wanted = service.changed(version=desired.version)
            return (desired,) if is_downgrade(stored, wanted) else None
        return (*route[:-1], desired)

    def _resolved(self, namespace: str, route: Route | None, service: ServiceKey) -> Route | None:
        """Return a route with the versions of templates whose upgrades say none."""
        if route is None:
            return None
        return tuple(
            UpgradeStep(step.name, self._version(namespace, step.name, service)) if step.version == step.name else step
            for step in route
        )

    def _at(self, namespace: str, service: Service | ServiceWithValues, key: ServiceKey) -> UpgradeStep:
        version = service.version
        if not version and service.template:
            version = self._version(namespace, service.template, key)
        return UpgradeStep(service.template, version or version_or_template(service))

    def _version(self, namespace: str, template: str, service: ServiceKey) -> str:
        key = ObjectKey(namespace, template)
        if key not in self._versions:
            found = self._snapshot.templates.get(key)
            if found is None:
                raise TemplateNotFoundError(key, service)
            self._versions[key] = template_version(found)
        return self._versions[key]


def _name(owner: MultiClusterService | None) -> str:
    return owner.metadata.name if owner else ""


def _by_key(services: Iterable[Service]) -> dict[ServiceKey, Service]:
    return {service_key(one.namespace, one.name): one for one in services}


def _with_other_options(stored: ServiceWithValues, desired: Service) -> bool:
    return (stored.values, stored.values_from, stored.helm_options, stored.helm_action) != (
        desired.values,
        desired.values_from,
        desired.helm_options,
        desired.helm_action,
    )


def _ordered(desired: Mapping[ServiceKey, Service]) -> tuple[list[ServiceKey], str]:
    """Return services after those they depend on, and what is wrong with the dependencies."""
    graph = {
        key: [service_key(other.namespace, other.name) for other in service.depends_on]
        for key, service in desired.items()
    }
    for key, named in graph.items():
        for other in named:
            if other not in desired:
                return sorted(desired), str(DependencyNotDesiredError(key, other))
    return _sorted(graph)


def _ordered_owners(
    owners: Iterable[MultiClusterService],
) -> tuple[list[MultiClusterService], dict[str, str]]:
    """Return owners after those they depend on, and what is wrong with each."""
    named = {one.metadata.name: one for one in owners}
    holds = {
        name: f"MultiClusterService {name} depends on {other}, which is not defined"
        for name, one in named.items()
        for other in one.spec.depends_on
        if other not in named
    }
    graph = {name: [other for other in one.spec.depends_on if other in named] for name, one in named.items()}
    order, problem = _sorted(graph)
    if problem:
        holds = dict.fromkeys(order, problem) | holds
    return [named[name] for name in order], holds


def _sorted[K: (str, ServiceKey)](graph: Mapping[K, Sequence[K]]) -> tuple[list[K], str]:
    """Return the keys, each after those that it names, and the first cycle, in which no such order exists."""
    order = [key for members in strongly_connected({key: graph[key] for key in sorted(graph)}) for key in members]
    cyclic = circles(graph) if _may_be_cyclic(graph, order) else []
    return order, str(DependencyCycleError([str(one) for one in cyclic[0]])) if cyclic else ""


def _may_be_cyclic[K: (str, ServiceKey)](graph: Mapping[K, Sequence[K]], order: Sequence[K]) -> bool:
    """Say whether something comes before what it names."""
    place = {key: number for number, key in enumerate(order)}
    return any(place[other] >= place[key] for key, named in graph.items() for other in named)
