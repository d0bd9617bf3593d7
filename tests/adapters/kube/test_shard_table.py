"""Who lives and who owns what, where a wrong answer would let two processes work on one release."""

from __future__ import annotations

import pytest

from support.fake_kube import FakeKube
from windlass.adapters.kube.coordination.members import LEASE_SECONDS, Members
from windlass.adapters.kube.coordination.shard_table import ShardTable
from windlass.domain.errors import PermanentError
from windlass.domain.ids import INSTALLATION_LABEL, MEMBER_LABEL
from windlass.ports.kube import Object, ObjectRef

SYSTEM = "windlass-system"
LEASE = "coordination.k8s.io/v1"
TERM = "windlass-worker-one/1111"


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    return made


def lease(name: str, holder: str, at: str = "2026-01-01T00:00:00.000000Z") -> Object:
    return {
        "apiVersion": LEASE,
        "kind": "Lease",
        "metadata": {
            "namespace": SYSTEM,
            "name": name,
            "labels": {INSTALLATION_LABEL: "windlass", MEMBER_LABEL: "worker"},
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": int(LEASE_SECONDS), "renewTime": at},
    }


async def test_a_new_installation_gets_what_is_asked_for_and_keeps_it(kube: FakeKube) -> None:
    assert (await ShardTable(kube, SYSTEM, "windlass").open(3, fixed=True)).count == 3
    assert (await ShardTable(kube, SYSTEM, "windlass").open(8, fixed=False)).count == 3
    with pytest.raises(PermanentError, match="has 3 shards, 8 are asked for"):
        await ShardTable(kube, SYSTEM, "windlass").open(8, fixed=True)


async def test_an_installation_from_before_there_was_a_table_has_one_shard(kube: FakeKube) -> None:
    kube.put(lease("windlass-worker", "somebody"))
    assert (await ShardTable(kube, SYSTEM, "windlass").open(8, fixed=False)).count == 1


@pytest.mark.parametrize("count", ["", "0", "many", "257", "-1"])
async def test_a_number_that_is_none_is_refused_by_name(kube: FakeKube, count: str) -> None:
    metadata = {"namespace": SYSTEM, "name": "windlass-shards"}
    kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"count": count}})
    with pytest.raises(PermanentError, match="where the number of shards stands"):
        await ShardTable(kube, SYSTEM, "windlass").open(8, fixed=False)


async def test_of_two_that_write_at_the_same_time_one_wins(kube: FakeKube) -> None:
    one, two = ShardTable(kube, SYSTEM, "windlass"), ShardTable(kube, SYSTEM, "windlass")
    await one.open(2, fixed=True)
    await two.open(2, fixed=True)
    assert await one.write({0: "a/1"})
    assert not await two.write({0: "b/1"})
    assert two.current is not None
    assert dict(two.current.owners) == {0: "a/1"}, "and the other has seen what the first has written"
    assert await two.write({0: "a/1", 1: "b/1"})


async def test_a_member_that_renews_unseen_is_not_gone(kube: FakeKube) -> None:
    now = 0.0
    members = Members(kube, SYSTEM, "windlass", clock=lambda: now)
    kube.put(lease("windlass-worker-one", TERM))
    assert not await members.gone([TERM]), "it was seen for the first time just now"
    now += LEASE_SECONDS + 1
    assert members.alive() == set()
    kube.put(lease("windlass-worker-one", TERM, "2026-01-01T00:00:09.000000Z"))  # the watch does not tell
    assert not await members.gone([TERM])
    assert members.alive() == {TERM}
    now += LEASE_SECONDS + 1
    assert await members.gone([TERM])


async def test_a_member_whose_lease_was_deleted_is_given_time_to_notice(kube: FakeKube) -> None:
    now = 0.0
    members = Members(kube, SYSTEM, "windlass", clock=lambda: now)
    assert not await members.gone([TERM])
    now += LEASE_SECONDS - 1
    assert not await members.gone([TERM])
    now += 1
    assert await members.gone([TERM])


async def test_an_earlier_term_of_a_member_that_is_back_is_gone(kube: FakeKube) -> None:
    members = Members(kube, SYSTEM, "windlass", clock=lambda: 0.0)
    kube.put(lease("windlass-worker-one", "windlass-worker-one/2222"))
    assert await members.gone([TERM])
    assert members.alive() == {"windlass-worker-one/2222"}
    await members.bury([TERM])
    ref = ObjectRef(api_version=LEASE, kind="Lease", namespace=SYSTEM, name="windlass-worker-one")
    assert await kube.get(ref) is not None, "the Lease of the new term stays"
