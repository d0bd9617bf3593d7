"""The garbage sweep: what goes, and everything that keeps it from going (frameworks.md section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from controllerruntime.memory import MemoryEntities, MemoryExternal

from support.fake_kube import FakeKube
from windlass.adapters.kube.informer import KubeObjects
from windlass.controllerruntime import Informer, Owner, owned, sweep
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
