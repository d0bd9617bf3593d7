from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.shards import assign

NAMES = st.sampled_from([f"member-{number}" for number in range(7)])
MEMBERS = st.frozensets(NAMES, min_size=1)
COUNTS = st.integers(1, 24)
OWNERS = st.dictionaries(st.integers(0, 30), NAMES)


@given(COUNTS, MEMBERS, OWNERS)
def test_every_shard_has_one_owner_and_shares_are_even(
    count: int, members: frozenset[str], owners: dict[int, str]
) -> None:
    result = assign(count, members, owners)
    assert sorted(result) == list(range(count))
    shares = Counter(result.values())
    assert set(shares) <= members
    assert max(shares.values()) - min(shares[member] for member in members) <= 1


@given(COUNTS, MEMBERS, OWNERS)
def test_no_more_shards_move_than_must(count: int, members: frozenset[str], owners: dict[int, str]) -> None:
    result = assign(count, members, owners)
    kept = sum(result[shard] == owners.get(shard) for shard in range(count))
    held = sorted((sum(owners.get(shard) == member for shard in range(count)) for member in members), reverse=True)
    share, larger = divmod(count, len(members))
    assert kept == sum(min(one, share + (place < larger)) for place, one in enumerate(held))


@given(COUNTS, MEMBERS, OWNERS)
def test_what_is_balanced_stays(count: int, members: frozenset[str], owners: dict[int, str]) -> None:
    result = assign(count, members, owners)
    assert assign(count, members, result) == result


@given(COUNTS, MEMBERS, OWNERS, st.randoms(use_true_random=False))
def test_acting_one_by_one_in_any_order_ends_even(
    count: int, members: frozenset[str], owners: dict[int, str], random: Random
) -> None:
    """Each act is computed anew from what is then true, as the processes do; it takes at most two acts a shard."""
    state = {shard: owner for shard, owner in owners.items() if shard < count}
    for _ in range(2 * count + 1):
        target = assign(count, members, state)
        due = [shard for shard in range(count) if state.get(shard) != target[shard]]
        if not due:
            break
        shard = random.choice(due)
        if state.get(shard) in members:
            del state[shard]  # its owner gives it up
        else:
            state[shard] = target[shard]  # it is free, or its owner is gone: taken
    assert state == assign(count, members, state)
    shares = Counter(state.values())
    assert max(shares.values()) - min(shares[member] for member in members) <= 1


def test_nobody_serves_without_members() -> None:
    assert assign(4, (), {0: "gone"}) == {}


def test_a_second_and_a_third_process_get_their_share_and_a_death_gives_it_back() -> None:
    alone = assign(8, ["a"], {})
    assert set(alone.values()) == {"a"}
    two = assign(8, ["a", "b"], alone)
    assert Counter(two.values()) == {"a": 4, "b": 4}
    three = assign(8, ["a", "b", "c"], two)
    assert Counter(three.values()) == {"a": 3, "b": 3, "c": 2}
    dead = assign(8, ["a", "c"], three)
    assert Counter(dead.values()) == {"a": 4, "c": 4}
    assert all(dead[shard] == owner for shard, owner in three.items() if owner != "b")
