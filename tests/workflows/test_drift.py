"""What a lifecycle does when it is told of drift; the comparison itself is played by the world."""

from __future__ import annotations

from typing import Any

from workflows.life import ACTION, Life
from workflows.world import hook

from support.waiting import eventually
from windlass.contracts.lifecycle import ReleaseDrifted
from windlass.contracts.steps import DriftResult
from windlass.domain.drift.comparison import LIMIT, Change, Difference, Mode, Policy, digest
from windlass.domain.packages.model import Binding

GONE = Difference(kind="ConfigMap", name="web", change=Change.ABSENT)
CHANGED = Difference(kind="ConfigMap", name="web", change=Change.CHANGED)
FIELD = Difference(kind="ConfigMap", name="web", path="/data/a", change=Change.CHANGED, manager="kubectl")
CORRECT = Policy(mode=Mode.CORRECT)
UPGRADE = "upgrade_release 1:s1"


async def tell(life: Life, *objects: Difference) -> None:
    assert await life.lifecycles.release_drifted(
        life.key, ReleaseDrifted(revision=life.world.revision, objects=objects)
    )


def found(*differences: Difference, corrected: tuple[Difference, ...] = ()) -> DriftResult:
    return DriftResult(
        revision=1, differences=differences, total=len(differences), digest=digest(differences), corrected=corrected
    )


async def in_sync(life: Life, reason: str) -> Any:
    """Wait until the newest status says so; return it."""

    def said() -> Any:
        status = life.world.statuses[-1].status
        return status if any(c.type == "InSync" and c.reason == reason for c in status.conditions or []) else None

    return await eventually(said, what=f"InSync: {reason}")


async def test_what_is_gone_is_put_back_without_hooks(life: Life) -> None:
    life.world.hooks = (hook("hooks/both", Binding.BEFORE_HELM, Binding.AFTER_HELM),)
    await life.changed()
    await life.rests()
    done = len(life.world.steps())
    life.world.release = ""
    await tell(life, GONE)
    await eventually(lambda: len(life.world.steps()) > done)
    await life.rests()
    assert life.world.steps()[done:] == [UPGRADE]


async def test_nothing_is_put_back_while_paused(life: Life) -> None:
    await life.changed()
    await life.rests()
    await life.lifecycles.pause(life.key, ACTION)
    done = len(life.world.steps())
    await tell(life, GONE)
    status = await in_sync(life, "DriftDetected")
    assert "paused" in next(c.message for c in status.conditions if c.type == "InSync")
    assert life.world.steps()[done:] == []
    life.world.release = ""
    await life.lifecycles.resume(life.key, ACTION)
    await eventually(lambda: life.world.steps()[done:] == [UPGRADE])


async def test_what_is_told_during_a_run_waits_for_its_end(life: Life) -> None:
    await life.changed()
    await life.rests()
    hold = life.world.hold("helm.upgrade_release")
    await life.change(settings="s2")
    await hold.started.wait()
    await tell(life, CHANGED)
    hold.release()
    await eventually(lambda: "check_drift detect" in life.world.steps())
    assert life.world.steps()[-2:] == ["upgrade_release 1:s2", "check_drift detect"]


async def test_what_is_told_of_another_revision_is_dropped(life: Life) -> None:
    await life.changed()
    await life.rests()
    done = len(life.world.steps())
    await life.lifecycles.release_drifted(life.key, ReleaseDrifted(revision=life.world.revision + 1, objects=(GONE,)))
    await life.change(settings="s2")
    await eventually(lambda: "upgrade_release 1:s2" in life.world.steps())
    await life.rests()
    assert life.world.steps()[done:] == ["apply_settings s2", "upgrade_release 1:s2"]


async def test_differences_are_told_of_and_forgotten(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.drifted.append(found(FIELD))
    await tell(life, CHANGED)
    status = await in_sync(life, "DriftDetected")
    assert status.drift.total == 1
    assert next(c.status for c in status.conditions if c.type == "Ready") == "True"
    life.world.drifted.append(found())
    await tell(life)
    status = await in_sync(life, "InSync")
    assert status.drift is None
    assert UPGRADE not in life.world.steps()[-2:]


async def test_a_fight_is_given_up(life: Life) -> None:
    life.world.change(drift=CORRECT)
    await life.changed()
    await life.rests()
    for _ in range(LIMIT):
        done = life.world.log.count("check_drift correct")
        life.world.drifted.append(found(corrected=(FIELD,)))
        await tell(life, CHANGED)
        await eventually(lambda done=done: life.world.log.count("check_drift correct") > done)
        await life.rests()
    life.world.drifted.append(found(FIELD))
    await tell(life, CHANGED)
    status = await in_sync(life, "DriftFighting")
    assert "kubectl" in next(c.message for c in status.conditions if c.type == "InSync")
    asked = next(request for request in reversed(life.world.requests) if hasattr(request, "held"))
    assert asked.held == (FIELD.field,)


async def test_an_object_that_somebody_deletes_for_ever_is_given_up(life: Life) -> None:
    await life.changed()
    await life.rests()
    for _ in range(LIMIT):
        done = life.world.log.count(UPGRADE)
        life.world.release = ""
        await tell(life, GONE)
        await eventually(lambda done=done: life.world.log.count(UPGRADE) > done)
        await life.rests()
    life.world.drifted.append(found(GONE))
    done = life.world.log.count(UPGRADE)
    await tell(life, GONE)
    await in_sync(life, "DriftFighting")
    assert life.world.log.count(UPGRADE) == done


async def test_another_policy_is_another_look(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.drifted.append(found(corrected=(FIELD,)))
    await life.change(drift=CORRECT)
    await in_sync(life, "DriftCorrected")
    assert life.world.steps()[-1] == "check_drift correct"
    await life.change(drift=Policy(mode=Mode.OFF))
    await in_sync(life, "DriftOff")
    done = len(life.world.steps())
    await tell(life, GONE)
    await life.change(settings="s2")
    await eventually(lambda: "upgrade_release 1:s2" in life.world.steps())
    await life.rests()
    assert life.world.steps()[done:] == ["apply_settings s2", "upgrade_release 1:s2"]


async def test_how_changes_are_noticed_is_said_and_nothing_is_compared_for_it(life: Life) -> None:
    await life.changed()
    await life.rests()
    done = len(life.world.steps())

    def message() -> str:
        conditions = life.world.statuses[-1].status.conditions or []
        return next(one.message for one in conditions if one.type == "InSync")

    assert message() == "changes are watched"
    for said, shown in (
        ("Secret: compared every 10 min", "Secret: compared every 10 min"),
        ("", "changes are watched"),
    ):
        told = ReleaseDrifted(revision=life.world.revision, objects=(), compare=False, unwatched=said)
        await life.lifecycles.release_drifted(life.key, told)
        await eventually(lambda shown=shown: message() == shown)
        drift = life.world.statuses[-1].status.drift
        assert (drift.unwatched if drift else None) == (said or None)
    assert life.world.steps()[done:] == []


async def test_a_difference_keeps_what_is_said_of_objects_not_watched(life: Life) -> None:
    await life.changed()
    await life.rests()
    life.world.drifted.append(found(FIELD))
    told = ReleaseDrifted(revision=life.world.revision, objects=(CHANGED,), unwatched="Secret: compared every 10 min")
    await life.lifecycles.release_drifted(life.key, told)
    status = await in_sync(life, "DriftDetected")
    assert (status.drift.total, status.drift.unwatched) == (1, "Secret: compared every 10 min")
