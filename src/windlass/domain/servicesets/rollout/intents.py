"""What a rollout has to do on each cluster: every service with its steps, and what holds it for good.

The rules are those of `windlass.domain.servicesets.resolve`; a test walks clusters with both and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from windlass.domain.servicesets.chain_graphs import ChainGraphs
from windlass.domain.servicesets.chains import Route, UpgradeStep
from windlass.domain.servicesets.dependencies import states_of, stored_of
from windlass.domain.servicesets.errors import (
    DependencyNotDefinedError,
    DependencyNotDesiredError,
    ServiceSetError,
    TemplateNotFoundError,
)
from windlass.domain.servicesets.keys import MANAGEMENT, ObjectKey, ServiceKey, object_key, service_key
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    Service,
    ServiceSet,
    ServiceState,
    ServiceWithValues,
    State,
)
from windlass.domain.servicesets.provider import (
    matching_labels,
    provider_of,
    state_management_provider_config_from_service_spec,
)
from windlass.domain.servicesets.rollout.fleet import MANAGEMENT_LABELS, Change, ClusterIntents, Fleet, Intent, Owned
from windlass.domain.servicesets.rollout.order import Ordered, ordered
from windlass.domain.servicesets.rollout.policy import selects
from windlass.domain.servicesets.snapshot import key_of
from windlass.domain.servicesets.versions import is_deployed, is_downgrade, template_version, version_or_template


def intents(fleet: Fleet) -> tuple[ClusterIntents, ...]:
    """Return what is to be done on every cluster, in the fleet's order; the management cluster comes last.

    It is among them if a MultiClusterService or a ServiceSet is for it. Linear in services and their steps.
    """
    return tuple(_Reader(fleet).clusters())


class _Reader:
    """Reads a fleet; keeps what several clusters share."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._sets = {key_of(one): one for one in fleet.snapshot.service_sets}
        self._shared: dict[ObjectKey, list[ServiceSet]] = {}
        for one in fleet.snapshot.service_sets:
            if one.spec.multi_cluster_service:
                self._shared.setdefault(ObjectKey(one.metadata.namespace, one.spec.cluster), []).append(one)
        self._named = {one.metadata.name: one for one in fleet.multi_cluster_services}
        self._owners, self._owner_holds = _ordered_owners(self._named)
        self._graphs = ChainGraphs(fleet.snapshot.chains)
        self._routes: dict[tuple[ObjectKey, str, str], Route | None] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._orders = {name: _ordered(_by_key(one.spec.service_spec.services)) for name, one in self._named.items()}

    def clusters(self) -> Iterator[ClusterIntents]:
        for cluster in self._fleet.clusters:
            labels = cluster.metadata.labels
            owners = [one for one in self._owners if selects(one.spec.cluster_selector, labels)]
            yield self._cluster(str(key_of(cluster)), labels, cluster, owners)
        owners = [one for one in self._owners if one.spec.service_spec.provider.self_management]
        if owners or ObjectKey(self._fleet.system_namespace, "") in self._shared:
            yield self._cluster(MANAGEMENT, MANAGEMENT_LABELS, None, owners)

    def _cluster(
        self,
        name: str,
        labels: Mapping[str, str],
        cluster: ClusterDeployment | None,
        owners: Sequence[MultiClusterService],
    ) -> ClusterIntents:
        here = {one.metadata.name for one in owners}
        services: list[Intent] = []
        owned: list[Owned] = []
        for owner in (*([None] if cluster else []), *owners):
            found, hold = self._owned(cluster, owner, len(services))
            after = tuple(one for one in owner.spec.depends_on if one in here) if owner else ()
            hold = self._owner_holds.get(_name(owner), "") or hold
            owned.append(Owned(name=_name(owner), first=len(services), count=len(found), after=after, hold=hold))
            services += found
        for there in self._left_behind(cluster, here):
            found, hold = self._removed(there, there.spec.services)
            gone = there.spec.multi_cluster_service
            owned.append(Owned(name=gone, first=len(services), count=len(found), hold=hold))
            services += found
        return ClusterIntents(name=name, labels=labels, services=tuple(services), owners=tuple(owned))

    def _left_behind(self, cluster: ClusterDeployment | None, here: Iterable[str]) -> Iterator[ServiceSet]:
        """Yield ServiceSets of MultiClusterServices that are not for a cluster any more (kcm.md section 3, MCS)."""
        namespace = cluster.metadata.namespace if cluster else self._fleet.system_namespace
        for there in self._shared.get(ObjectKey(namespace, cluster.metadata.name if cluster else ""), ()):
            owner = self._named.get(there.spec.multi_cluster_service)
            if there.spec.multi_cluster_service in here or (owner and owner.spec.keep_services_on_selector_mismatch):
                continue
            yield there

    def _removed(self, there: ServiceSet, services: Iterable[ServiceWithValues]) -> tuple[list[Intent], str]:
        """Return the removal of stored services, and what keeps all of them where they are."""
        found: list[Intent] = []
        problem = ""
        for entry in services:
            key = service_key(entry.namespace, entry.name)
            current = UpgradeStep(entry.template, version_or_template(entry))
            try:
                current = self._at(there.metadata.namespace, entry, key)
            except ServiceSetError as error:
                problem = str(error)
            owner = there.spec.multi_cluster_service
            found.append(Intent(owner=owner, service=key, change=Change.REMOVE, current=current, hold=problem))
        return found, problem

    def _owned(
        self, cluster: ClusterDeployment | None, owner: MultiClusterService | None, first: int
    ) -> tuple[list[Intent], str]:
        """Return the services of one owner, and what keeps all of them where they are."""
        key = object_key(self._fleet.system_namespace, cluster, owner)
        there = self._sets.get(key)
        stored, states = stored_of(there), states_of(there)
        dry_run = owner is None and cluster is not None and cluster.spec.dry_run
        desired = _by_key(_wanted(cluster, owner))
        order, problem = self._orders[owner.metadata.name] if owner else _ordered(desired)
        problem = self._undeliverable(cluster, owner, key) or problem
        places = {one: first + number for number, one in enumerate(order.keys)}
        found: list[Intent] = []
        for one in order.keys:
            service = desired[one].changed(disable=True) if dry_run else desired[one]
            cycle = order.cycles.get(one, "")
            # Members of a cycle cannot all come after what they depend on; none of them moves.
            after = () if cycle else tuple(places[other] for other in _depends_on(service) if other in places)
            try:
                intent = self._intent(key.namespace, owner, one, service, stored.get(one), states.get(one), after)
                found.append(replace(intent, cycle=cycle) if cycle else intent)
            except ServiceSetError as error:
                problem = problem or str(error)
                found.append(Intent(owner=_name(owner), service=one, change=Change.NONE, after=after, hold=str(error)))
        if there is not None and not dry_run:
            gone, hold = self._removed(there, [entry for one, entry in stored.items() if one not in desired])
            found, problem = found + gone, problem or hold
        return found, problem

    def _undeliverable(
        self, cluster: ClusterDeployment | None, owner: MultiClusterService | None, key: ObjectKey
    ) -> str:
        """Return why no provider would deliver a ServiceSet; of fleets without providers only what the spec says."""
        spec = owner or cluster
        if spec is None:
            return ""
        try:
            name = state_management_provider_config_from_service_spec(spec.spec.service_spec).name
            if not self._fleet.snapshot.providers:
                return ""
            provider = provider_of(self._fleet.snapshot, name, key)
            there = self._sets.get(key)
            if provider.spec.selector is not None:
                matching_labels(provider.spec.selector, there.metadata.labels if there else {}, key, name)
        except ServiceSetError as error:
            return str(error)
        return f"{provider.title} is suspended (spec.suspend)" if provider.spec.suspend else ""

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
                self._routes[asked] = self._resolved(chain, graph.route(*asked[1:]), key)
            route = self._routes[asked]
        if current.name == desired.name or not service.template_chain:
            return (desired,)
        if route is None:
            wanted = service.changed(version=desired.version)
            return (desired,) if is_downgrade(stored, wanted) else None
        return (*route[:-1], desired)

    def _resolved(self, chain: ObjectKey, route: Route | None, service: ServiceKey) -> Route | None:
        """Return a route with the versions of templates whose upgrades say none."""
        if route is None:
            return None
        return tuple(
            UpgradeStep(step.name, self._version(chain.namespace, step.name, service, chain))
            if step.version == step.name
            else step
            for step in route
        )

    def _at(self, namespace: str, service: Service | ServiceWithValues, key: ServiceKey) -> UpgradeStep:
        version = service.version
        if not version and service.template:
            version = self._version(namespace, service.template, key)
        return UpgradeStep(service.template, version or version_or_template(service))

    def _version(self, namespace: str, template: str, service: ServiceKey, chain: ObjectKey | None = None) -> str:
        key = ObjectKey(namespace, template)
        if key not in self._versions:
            found = self._fleet.snapshot.templates.get(key)
            if found is None:
                raise TemplateNotFoundError(key, service, chain=chain)
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


def _wanted(cluster: ClusterDeployment | None, owner: MultiClusterService | None) -> Sequence[Service]:
    spec = owner or cluster
    return spec.spec.service_spec.services if spec else ()


def _depends_on(service: Service) -> list[ServiceKey]:
    return [service_key(other.namespace, other.name) for other in service.depends_on]


def _ordered(desired: Mapping[ServiceKey, Service]) -> tuple[Ordered[ServiceKey], str]:
    """Return services after those they depend on, and what keeps all of them where they are."""
    graph = {key: _depends_on(service) for key, service in desired.items()}
    for key, named in graph.items():
        for other in named:
            if other not in desired:
                return Ordered(tuple(sorted(desired)), {}), str(DependencyNotDesiredError(key, other))
    return ordered(graph), ""


def _ordered_owners(named: Mapping[str, MultiClusterService]) -> tuple[list[MultiClusterService], dict[str, str]]:
    """Return owners after those they depend on, and what is wrong with each."""
    holds = {
        name: str(DependencyNotDefinedError(one.title, MultiClusterService.new("", other).title))
        for name, one in named.items()
        for other in one.spec.depends_on
        if other not in named
    }
    order = ordered({name: [other for other in one.spec.depends_on if other in named] for name, one in named.items()})
    return [named[name] for name in order.keys], {**order.cycles, **holds}
