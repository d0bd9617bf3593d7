"""Records of a release that somebody else wrote: the lifecycle holds until a person adopts them."""

from __future__ import annotations

import pytest
from workflows.life import ACTION, Life

from support.waiting import eventually
from windlass.contracts.lifecycle import AdoptAction, ReleaseDrifted
from windlass.contracts.objects import Condition
from windlass.contracts.steps import DriftResult, ReleaseRequest, UninstallRequest
from windlass.domain.drift.comparison import Change, Difference, Mode, Policy
from windlass.domain.errors import PermanentError, Reason

pytestmark = pytest.mark.stack

FOREIGN = PermanentError(Reason.RELEASE_FOREIGN, "somebody else wrote records of release web", hint="adopt")


def condition(life: Life, type_: str) -> Condition:
    return next(one for one in life.world.statuses[-1].status.conditions or [] if one.type == type_)


async def held(life: Life) -> None:
    def told() -> bool:
        failure = life.world.statuses[-1].status.failure if life.world.statuses else None
        return failure is not None and failure.reason == Reason.RELEASE_FOREIGN.value

    await eventually(told)


def asked(life: Life) -> list[str | None]:
    """What each release step was told of adoption."""
    return [one.adopt for one in life.world.requests if isinstance(one, ReleaseRequest | UninstallRequest)]


async def test_what_is_adopted_is_tried_once_with_that_and_is_ready(life: Life) -> None:
    life.world.fail("helm.upgrade_release", FOREIGN)
    await life.changed()
    await held(life)
    assert condition(life, "Ready").reason == condition(life, "HelmApplied").reason == Reason.RELEASE_FOREIGN.value
    result = await life.lifecycles.adopt(life.key, AdoptAction(who="ann", fingerprint="0123456789ab"))
    assert result.accepted
    await life.rests()
    await life.change(settings="s2")
    await life.rests()
    assert asked(life) == [None, "0123456789ab", None]


async def test_a_refused_adoption_is_not_kept_for_later(life: Life) -> None:
    life.world.fail("helm.upgrade_release", FOREIGN, FOREIGN)
    await life.changed()
    await held(life)
    await life.lifecycles.adopt(life.key, AdoptAction(who="ann"))
    await eventually(lambda: asked(life) == [None, ""])
    await eventually(lambda: (failure := life.world.statuses[-1].status.failure) is not None and failure.attempt == 2)
    await life.lifecycles.retry(life.key, ACTION)
    await life.rests()
    assert asked(life) == [None, "", None]


async def test_where_nobody_else_wrote_anything_there_is_nothing_to_adopt(life: Life) -> None:
    await life.changed()
    await life.rests()
    result = await life.lifecycles.adopt(life.key, AdoptAction(who="ann"))
    assert (result.accepted, "nothing to adopt" in result.message) == (False, True)


async def test_a_foreign_record_found_by_drift_stops_at_the_release_and_corrects_nothing(life: Life) -> None:
    await life.change(drift=Policy(mode=Mode.CORRECT))
    await life.rests()
    life.world.drifted.append(DriftResult(foreign=True))
    life.world.fail("helm.upgrade_release", FOREIGN)
    changed = Difference(kind="ConfigMap", name="web", change=Change.CHANGED)
    await life.lifecycles.release_drifted(life.key, ReleaseDrifted(revision=life.world.revision, objects=(changed,)))
    await held(life)
    assert condition(life, "InSync").status == "Unknown"


async def test_a_removal_waits_for_a_person_too(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.fail("helm.uninstall_release", FOREIGN)
    await life.change(deleting=True)
    await held(life)
    assert condition(life, "Ready").reason == "Removing"
    await life.lifecycles.adopt(life.key, AdoptAction(who="ann"))
    await life.ended()
    assert asked(life)[-1] == ""
