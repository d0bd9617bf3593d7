"""Reads the manifests that plans are made of; errors name file, document and field."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from pydantic import ValidationError

from windlass.cli.manifests import Manifest, read_manifests
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import GROUP, Kind
from windlass.domain.servicesets.chains import ChainGraph
from windlass.domain.servicesets.errors import RolloutInvalidError, ServiceSetError
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    StateManagementProvider,
)
from windlass.domain.servicesets.rollout.documents import past_steps, rollout_policy
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import DEFAULT, Predictions
from windlass.domain.servicesets.snapshot import Snapshot
from windlass.domain.text.durations import DurationError, parse_duration

KINDS: Final[dict[str, type[ServiceObject]]] = {
    model.KIND: model
    for model in (
        ClusterDeployment,
        MultiClusterService,
        ServiceSet,
        ServiceTemplate,
        ServiceTemplateChain,
        StateManagementProvider,
    )
}
PACKAGE_KINDS: Final = {*Kind, "PackageRepository"}
"""Kinds of ours that may well stand beside a fleet's."""


@dataclass(frozen=True)
class FoundChain:
    """A chain, and the document that it was read from."""

    chain: ServiceTemplateChain
    place: str


@dataclass(frozen=True)
class GivenFleet:
    """What a fleet file says.

    Attributes:
        fleet: clusters, services, templates, chains.
        policy: of the rollout.
        predictions: from the durations of past steps.
        left_out: kinds that have no part in a plan, and how many objects of each the file holds.
    """

    fleet: Fleet
    policy: RolloutPolicy
    predictions: Predictions
    left_out: Mapping[str, int]


def chain_of(file: str, name: str) -> FoundChain:
    """Return the chain in a file, by its name if there are several.

    Raises:
        PermanentError: VALIDATION_FAILED; there is none, or it is not clear which one.
        ChainTooLargeError: see `windlass.domain.servicesets.chains`.
    """
    found = [
        FoundChain(_model(one, ServiceTemplateChain), one.place)
        for one in read_manifests(file)
        if one.object["kind"] == ServiceTemplateChain.KIND
    ]
    names = sorted({one.chain.metadata.name for one in found})
    chosen = [one for one in found if not name or one.chain.metadata.name == name]
    if not chosen:
        what = f"holds no {ServiceTemplateChain.KIND}" + (f" {name}" if name else "")
        _refuse(file, what, f"it holds {', '.join(names)}" if names else "name a file with one")
    if len(chosen) > 1:
        _refuse(file, f"holds {len(chosen)} chains: {', '.join(names)}", "say which one with --chain NAME")
    return chosen[0]


def fleet_of(file: str, system_namespace: str, rollout: str = "", step_time: timedelta = DEFAULT) -> GivenFleet:
    """Return what a file says about clusters, services and their rollout.

    Manifests of a fleet often stand among others (namespaces, chart sources, credentials): those are counted.

    Args:
        file: see `windlass.cli.manifests.read_manifests`.
        system_namespace: where the ServiceSets, templates and chains of the management cluster are.
        rollout: the MultiClusterService whose ``spec.rollout`` counts, if several differ.
        step_time: how long a step without a past takes.

    Raises:
        PermanentError: VALIDATION_FAILED; a document does not hold what it should, or two have one name.
    """
    objects: list[ServiceObject] = []
    places: dict[tuple[str, str, str], str] = {}
    left_out: Counter[str] = Counter()
    for one in read_manifests(file):
        kind = one.object["kind"]
        if kind not in KINDS:
            _check_misspelt(one)
            left_out[kind] += 1
            continue
        made = _model(one, KINDS[kind])
        key = kind, made.metadata.namespace, made.metadata.name
        if key in places:
            _refuse(one.place, f"{made.title} is in {places[key]} already", "leave one of them out")
        places[key] = one.place
        objects.append(made)
        _check_chain(made, one.place)
    fleet = Fleet(
        clusters=tuple(one for one in objects if isinstance(one, ClusterDeployment)),
        multi_cluster_services=tuple(one for one in objects if isinstance(one, MultiClusterService)),
        snapshot=Snapshot.of(objects),
        system_namespace=system_namespace,
    )
    if not fleet.clusters and not any(
        one.spec.service_spec.provider.self_management for one in fleet.multi_cluster_services
    ):
        _refuse(file, f"holds no {ClusterDeployment.KIND}", "add the clusters that the rollout goes over")
    if held_back := sum(cluster.spec.rollout is not None for cluster in fleet.clusters):
        left_out[f"spec.rollout of a {ClusterDeployment.KIND}"] = held_back
    past = (step for owner in fleet.multi_cluster_services for step in past_steps(owner))
    return GivenFleet(
        fleet=fleet,
        policy=_policy(file, fleet, rollout),
        predictions=Predictions(past, step_time),
        left_out=left_out,
    )


def time_of(text: str) -> datetime:
    """Read a time; without a zone it is UTC.

    Raises:
        PermanentError: VALIDATION_FAILED; it is none.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        _refuse("--at", f"{text!r} is no time", "write it like 2026-06-01T22:00:00+02:00")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def duration_of(option: str, text: str) -> timedelta:
    """Read a duration that an option gives.

    Raises:
        PermanentError: VALIDATION_FAILED; it is none.
    """
    try:
        return parse_duration(text)
    except DurationError as error:
        _refuse(option, str(error), "write it like 90s, 30m, 1h30m or 2d")


def _policy(file: str, fleet: Fleet, name: str) -> RolloutPolicy:
    """Return the one policy of a plan: that of ``name``, or the one on which all MultiClusterServices agree."""
    owners = {one.metadata.name: one for one in fleet.multi_cluster_services if one.spec.rollout is not None}
    if name and name not in owners:
        known = ", ".join(sorted(owners)) or "none has it"
        _refuse("--rollout", f"{file} holds no {MultiClusterService.KIND} {name} with spec.rollout", f"known: {known}")
    found: dict[str, RolloutPolicy] = {}
    for one, owner in owners.items():
        try:
            found[one] = rollout_policy(owner)
        except RolloutInvalidError as error:
            _refuse(file, error.message, error.hint)
    if name:
        return found[name]
    different = [one for number, one in enumerate(found) if found[one] not in list(found.values())[:number]]
    if len(different) > 1:
        _refuse(file, f"spec.rollout differs between {', '.join(different)}", "say which counts with --rollout NAME")
    return found[different[0]] if different else RolloutPolicy()


def _model[M: ServiceObject](one: Manifest, model: type[M]) -> M:
    try:
        return model.from_object(one.object)
    except ValidationError as error:
        _refuse_fields(one.place, "", error)


def _check_misspelt(one: Manifest) -> None:
    """Refuse a kind that was probably meant to be one of ours; what is left out should not be what counts."""
    kind: str = one.object["kind"]
    if kind == "Rollout" and one.object["apiVersion"].partition("/")[0] == GROUP:
        _refuse(one.place, "there is no kind Rollout", "write it as spec.rollout of the MultiClusterService")
    known = [*KINDS]
    ours = one.object["apiVersion"].partition("/")[0] == GROUP and kind not in PACKAGE_KINDS
    close = difflib.get_close_matches(kind, known, n=1, cutoff=0.85)
    if close or ours:
        hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
        _refuse(one.place, f"kind {kind} has no part in a plan", hint)


def _check_chain(one: ServiceObject, place: str) -> None:
    if isinstance(one, ServiceTemplateChain):
        try:
            ChainGraph.of(one)
        except ServiceSetError as error:
            _refuse(place, error.message, error.hint)


def _refuse_fields(place: str, root: str, error: ValidationError) -> NoReturn:
    first, *more = _problems(root, error)
    also = f"; also {'; '.join(more[:3])}" if more else ""
    _refuse(place, first + also, "correct the field" + ("s" if more else ""))


def _problems(root: str, error: ValidationError) -> Iterator[str]:
    """Yield ``spec.policy.waves[0]: what is wrong`` for each field."""
    for one in error.errors(include_url=False, include_input=False):
        path = root
        for step in one["loc"]:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        text = one["msg"].removeprefix("Value error, ")
        yield f"{path}: {text[:1].lower()}{text[1:]}"


def _refuse(where: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.VALIDATION_FAILED, f"{where}: {problem}", hint=hint, actor=Actor.USER)
