"""Reads ``spec.rollout`` of objects, and the durations that their status keeps.

The API server checks form and limits. What it cannot know (whether a schedule is one, whether a time zone exists,
whether a freeze ends after it begins) is found here, and becomes a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windlass.domain.servicesets.errors import RolloutInvalidError
from windlass.domain.servicesets.models import ClusterDeployment, MultiClusterService
from windlass.domain.servicesets.rollout.cluster_policy import ClusterPolicy
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.predictions import PastStep
from windlass.domain.servicesets.rollout.windows import Duration


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    start: str = Field(default="", alias="from")
    end: Annotated[str, Field(alias="to", min_length=1)]
    duration: Duration


def rollout_policy(owner: MultiClusterService) -> RolloutPolicy:
    """Return how a change goes over the clusters of a MultiClusterService.

    Raises:
        RolloutInvalidError: all that is wrong with ``spec.rollout``.
    """
    return _read(RolloutPolicy, owner)


def cluster_policy(cluster: ClusterDeployment) -> ClusterPolicy:
    """Return when the own services of a cluster may move.

    Raises:
        RolloutInvalidError: all that is wrong with ``spec.rollout``.
    """
    return _read(ClusterPolicy, cluster)


def past_steps(owner: MultiClusterService) -> tuple[PastStep, ...]:
    """Return the durations that ``status.pastSteps`` keeps; entries that cannot be read are left out."""
    return tuple(_steps(owner))


def _steps(owner: MultiClusterService) -> Iterator[PastStep]:
    for entry in owner.status.past_steps:
        try:
            step = _Step.model_validate(entry)
        except ValidationError:
            continue
        if step.duration > timedelta():
            yield PastStep(step.start, step.end, step.duration)


def _read[M: (RolloutPolicy, ClusterPolicy)](model: type[M], owner: MultiClusterService | ClusterDeployment) -> M:
    try:
        return model.model_validate(owner.spec.rollout or {}, by_alias=True, by_name=False)
    except ValidationError as error:
        raise RolloutInvalidError(owner.title, tuple(_problems(error))) from None


def _problems(error: ValidationError) -> Iterator[str]:
    """Yield ``spec.rollout.windows[0].schedule: what is wrong`` for each field."""
    for one in error.errors(include_url=False, include_input=False):
        path = "spec.rollout" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"])
        text = one["msg"].removeprefix("Value error, ")
        yield f"{path}: {text[:1].lower()}{text[1:]}"
