"""Reads the manifests that plans are made of; errors name file, document and field."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from windlass.cli.manifests import Manifest, read_manifests
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import GROUP, Kind
from windlass.domain.servicesets.chains import ChainGraph
from windlass.domain.servicesets.errors import ServiceSetError
from windlass.domain.servicesets.models import (
    ClusterDeployment,
    MultiClusterService,
    ServiceObject,
    ServiceSet,
    ServiceTemplate,
    ServiceTemplateChain,
    StateManagementProvider,
)
from windlass.domain.servicesets.rollout.fleet import Fleet
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import DEFAULT, PastStep, Predictions
from windlass.domain.servicesets.rollout.windows import Duration
from windlass.domain.servicesets.snapshot import Snapshot

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
ROLLOUT: Final = "Rollout"
PACKAGE_KINDS: Final = {*Kind, "PackageRepository"}
"""Kinds of ours that may well stand beside a fleet's."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)


class _PastStep(_Part):
    """How long one step took; ``from`` is absent for an installation."""

    start: str = Field(default="", alias="from")
    end: str = Field(alias="to", min_length=1)
    duration: Duration


class _Predictions(_Part):
    default: Duration = DEFAULT
    approval: Duration = timedelta()
    past: tuple[_PastStep, ...] = ()


class _RolloutSpec(_Part):
    policy: RolloutPolicy = Field(default_factory=RolloutPolicy)
    durations: _Predictions = Field(default_factory=_Predictions)


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
        predictions: from its past durations.
        approval_wait: how long people take to approve.
        left_out: kinds that have no part in a plan, and how many objects of each the file holds.
    """

    fleet: Fleet
    policy: RolloutPolicy
    predictions: Predictions
    approval_wait: timedelta
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


def fleet_of(file: str, system_namespace: str) -> GivenFleet:
    """Return what a file says about clusters, services and their rollout.

    Manifests of a fleet often stand among others (namespaces, chart sources, credentials): those are counted.

    Raises:
        PermanentError: VALIDATION_FAILED; a document does not hold what it should, or two have one name.
    """
    objects: list[ServiceObject] = []
    places: dict[tuple[str, str, str], str] = {}
    rollouts: list[Manifest] = []
    left_out: Counter[str] = Counter()
    for one in read_manifests(file):
        kind = one.object["kind"]
        if kind == ROLLOUT:
            rollouts.append(one)
            continue
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
    if len(rollouts) > 1:
        _refuse(rollouts[1].place, f"a second {ROLLOUT}; the first is {rollouts[0].place}", "leave one of them out")
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
    spec = _rollout(rollouts)
    return GivenFleet(
        fleet=fleet,
        policy=spec.policy,
        predictions=Predictions(
            (PastStep(one.start, one.end, one.duration) for one in spec.durations.past), spec.durations.default
        ),
        approval_wait=spec.durations.approval,
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


def _rollout(found: Sequence[Manifest]) -> _RolloutSpec:
    if not found:
        return _RolloutSpec()
    spec: Any = found[0].object.get("spec", {})
    try:
        return _RolloutSpec.model_validate(spec)
    except ValidationError as error:
        _refuse_fields(found[0].place, "spec", error)


def _model[M: ServiceObject](one: Manifest, model: type[M]) -> M:
    try:
        return model.from_object(one.object)
    except ValidationError as error:
        _refuse_fields(one.place, "", error)


def _check_misspelt(one: Manifest) -> None:
    """Refuse a kind that was probably meant to be one of ours; what is left out should not be what counts."""
    kind: str = one.object["kind"]
    known = [*KINDS, ROLLOUT]
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
