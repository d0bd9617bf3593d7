"""The garbage sweep: what goes, and everything that keeps it from going (frameworks.md section 2.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from controllerruntime.memory import Controller, MemoryEntities, MemoryExternal

from support.fake_kube import FakeKube
from support.waiting import eventually
from windlass.adapters.kube.following.informer import KubeObjects
from windlass.controllerruntime import ControllerRuntime, Informer, Owner, owned, sweep
from windlass.controllerruntime.secondaries import EntitySecondaries, KubeSecondaries
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.entities import Item, Owned

KIND = "Route"
DOWN = TransientError(Reason.API_UNAVAILABLE, "down")


def made_for(key: str, kind: str = KIND) -> dict[str, object]:
    return owned({}, Owner(kind=kind, key=key))


async def test_only_what_lost_its_owner_goes() -> None:
    primary = MemoryEntities(alive={})
    made = MemoryEntities(
        a=made_for("alive"),
        b=made_for("gone"),
        c=made_for("gone", "Other"),
        d={},
        e=made_for("no key"),
        f=made_for("gone"),
    )
    elsewhere = MemoryExternal([])
    elsewhere.things = {"x": made_for("alive"), "y": made_for("gone"), "z": made_for("gone", "Other")}
    done = await sweep(KIND, primary, [EntitySecondaries(made), elsewhere])
    assert done.removed == ("bucket memory: b", "bucket memory: f", "things elsewhere: y")
    assert done.failures == ()
    assert {item.key for item in await made.list()} == {"a", "c", "d", "e"}
    assert set(elsewhere.things) == {"x", "z"}
    assert (await sweep(KIND, primary, [EntitySecondaries(made), elsewhere])).removed == ()


async def test_nothing_goes_when_the_primaries_cannot_be_listed() -> None:
    primary, made = MemoryEntities(), MemoryEntities(b=made_for("gone"))
    primary.broken = DOWN
    with pytest.raises(TransientError, match="down"):
        await sweep(KIND, primary, [EntitySecondaries(made)])
    assert len(await made.list()) == 1


class Late(MemoryEntities):
    """Its one entity came after the list."""

    async def list(self, *, content: bool = True) -> Sequence[Item]:
        return [item for item in await super().list(content=content) if item.key != "late"]


class Unreadable(MemoryEntities):
    """Lists, and reads nothing."""

    async def get(self, key: str) -> Item | None:
        raise PermanentError(Reason.FORBIDDEN, f"{key} is not for you")


async def test_an_owner_that_came_after_the_list_keeps_its_secondaries() -> None:
    made = MemoryEntities(b=made_for("late"))
    assert (await sweep(KIND, Late(late={}), [EntitySecondaries(made)])).removed == ()
    assert len(await made.list()) == 1


async def test_an_owner_that_cannot_be_read_keeps_its_secondaries() -> None:
    made = MemoryEntities(b=made_for("gone"))
    done = await sweep(KIND, Unreadable(), [EntitySecondaries(made)])
    assert (done.removed, len(done.failures), len(await made.list())) == ((), 1, 1)


class ComesBack(EntitySecondaries):
    """Its owner is made anew at the worst moment: after it was looked for, before the removal."""

    def __init__(self, made: MemoryEntities, primary: MemoryEntities) -> None:
        super().__init__(made)
        self.primary = primary

    async def remove(self, secondary: Owned) -> bool:
        self.primary.store("back", {})
        return await super().remove(secondary)


async def test_an_owner_that_comes_back_while_it_is_swept_is_told() -> None:
    primary, told = MemoryEntities(), list[str]()
    made = MemoryEntities(a=made_for("back"), b=made_for("back"), c=made_for("gone"))
    done = await sweep(KIND, primary, [ComesBack(made, primary)], returned=told.append)
    assert len(done.removed) == 3
    assert told == ["back"]


class Lost(MemoryEntities):
    """Answers once for a key, and then no more."""

    asked = 0

    async def get(self, key: str) -> Item | None:
        self.asked += 1
        if self.asked > 1:
            raise DOWN
        return await super().get(key)


async def test_an_owner_of_which_nothing_is_known_afterwards_is_told() -> None:
    told = list[str]()
    await sweep(KIND, Lost(), [EntitySecondaries(MemoryEntities(a=made_for("back")))], returned=told.append)
    assert told == ["back"]


async def test_a_controller_makes_anew_what_its_sweep_took_from_a_primary_that_came_back() -> None:
    primary, elsewhere = MemoryEntities(), MemoryExternal([])
    elsewhere.things = {"thing": made_for("back")}

    async def remove(secondary: Owned) -> bool:
        primary.silent = True  # its news are late: only the sweep can tell
        primary.store("back", {})
        return elsewhere.things.pop(secondary.name, None) is not None

    elsewhere.remove = remove  # type: ignore[method-assign]
    controller = Controller(ControllerRuntime("routes", KIND, primary, resync=3600, external=[elsewhere]))
    controller.runtime.set_custom_controller(controller)
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(1, stop))
    await eventually(lambda: controller.synced == ["back"], 20)
    stop.set()
    await asyncio.wait_for(task, 20)


class Changing(EntitySecondaries):
    """Its secondaries change, or go, between being read and being deleted."""

    def __init__(self, made: MemoryEntities) -> None:
        super().__init__(made)
        self.made = made

    async def owned(self, kind: str) -> Sequence[Owned]:
        found = await super().owned(kind)
        self.made.store("adopted", made_for("alive"))
        self.made.drop("vanished")
        return found


async def test_a_secondary_that_changed_meanwhile_stays_and_one_that_went_is_fine() -> None:
    made = MemoryEntities(adopted=made_for("gone"), vanished=made_for("gone"), old=made_for("gone"))
    done = await sweep(KIND, MemoryEntities(alive={}), [Changing(made)])
    assert "bucket memory: old" in done.removed
    assert [failure for failure in done.failures if "adopted" in failure]
    assert {item.key for item in await made.list()} == {"adopted"}


async def test_one_collection_that_fails_does_not_keep_the_others() -> None:
    broken, made = MemoryEntities("bucket broken"), MemoryEntities(b=made_for("gone"))
    broken.broken = DOWN
    done = await sweep(KIND, MemoryEntities(), [EntitySecondaries(broken), EntitySecondaries(made)])
    assert done.failures == ("bucket broken: down",)
    assert done.removed == ("bucket memory: b",)


async def test_objects_are_not_swept_before_they_were_all_listed() -> None:
    kube = FakeKube()
    informer = Informer(KubeObjects(kube, "v1", "ConfigMap"))
    done = await sweep(KIND, MemoryEntities(), [KubeSecondaries(informer, kube)])
    assert (done.removed, done.failures) == ((), ("ConfigMap: ConfigMap has not been listed yet",))
