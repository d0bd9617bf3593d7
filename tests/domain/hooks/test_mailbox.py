"""Order, combining and collapse of what waits for hooks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.hooks.bindings import Change
from windlass.domain.hooks.mailbox import COLLAPSE_AT, Item, Mailbox, collapsed, combined

CHANGES = st.sampled_from(Change)


def event(number: int, key: str = "k", change: Change = Change.MODIFIED, **more: str) -> Item:
    return Item(sequence=number, change=change, key=key, **{"hook": "h", "binding": "h#0", **more})


def sync(number: int, **more: str) -> Item:
    return Item(sequence=number, **{"hook": "h", "binding": "h#0", **more})


def numbers(items: tuple[Item, ...] | list[Item]) -> list[int]:
    return [item.sequence for item in items]


def test_what_follows_of_the_same_hook_is_told_together() -> None:
    batch = combined([event(1), event(2, binding="h#1"), event(3, hook="other"), event(4)])
    assert (numbers(batch.taken), numbers(batch.told)) == ([1, 2], [1, 2])


def test_a_synchronization_without_a_group_is_told_alone() -> None:
    assert numbers(combined([sync(1), event(2)]).taken) == [1]
    assert numbers(combined([event(1), sync(2), event(3)]).taken) == [1]


def test_of_a_group_in_a_row_the_last_one_is_told() -> None:
    items = [sync(1, group="g"), sync(2, group="g"), event(3), event(4, group="g"), event(5, group="g"), event(6)]
    batch = combined(items)
    assert (numbers(batch.taken), numbers(batch.told)) == ([1, 2, 3, 4, 5, 6], [2, 3, 5, 6])


def test_a_failed_run_is_taken_again_with_what_came_in_since() -> None:
    box = Mailbox()
    box.put(event(1))
    assert numbers((box.take() or combined([])).taken) == [1]
    box.put(event(2))
    assert numbers((box.take() or combined([])).taken) == [1, 2]
    box.done()
    assert box.take() is None


def test_what_comes_in_during_a_run_waits_for_the_next() -> None:
    box = Mailbox()
    box.put(event(1))
    box.take()
    box.put(event(2, key="new"))
    assert box.waiting("h#0", running=False) == {"new"}
    assert box.waiting("h#0", running=True) == {"k", "new"}
    box.done()
    assert len(box) == 1


def test_a_synchronization_supersedes_the_events_behind_it() -> None:
    box = Mailbox()
    for item in (sync(1), event(2), event(3, binding="h#1")):
        box.put(item)
    box.take()
    assert box.synchronizing() == {"h#0"}
    box.supersede("h#0")
    box.done()
    assert numbers((box.take() or combined([])).taken) == [3]


def test_a_long_queue_collapses_behind_what_runs() -> None:
    box = Mailbox()
    box.put(event(0, key="running"))
    box.take()
    for number in range(1, 10 * COLLAPSE_AT):
        box.put(event(number, key=f"k{number % 5}"))
    assert len(box) <= 2 * COLLAPSE_AT
    box.done()
    told = (box.take() or combined([])).told
    assert {item.key for item in told} == {f"k{number}" for number in range(5)}
    assert max(numbers(list(told))) == 10 * COLLAPSE_AT - 1


@given(st.lists(st.tuples(st.integers(0, 4), CHANGES), min_size=1))
def test_a_collapse_tells_each_object_at_most_twice_and_its_newest_state(news: list[tuple[int, Change]]) -> None:
    items = [event(number, key=f"k{key}", change=change) for number, (key, change) in enumerate(news)]
    left = collapsed(items)
    for key in {item.key for item in items}:
        before = [item for item in items if item.key == key]
        after = [item for item in left if item.key == key]
        assert 1 <= len(after) <= 2
        assert after[-1].sequence == before[-1].sequence
        deleted = any(item.change is Change.DELETED for item in before)
        assert any(item.change is Change.DELETED for item in after) == deleted
    assert numbers(left) == sorted(numbers(left))


ITEMS = st.builds(
    Item,
    sequence=st.integers(0, 1000),
    hook=st.sampled_from(["a", "b"]),
    binding=st.sampled_from(["x", "y"]),
    group=st.sampled_from(["", "", "g"]),
    change=st.one_of(st.none(), CHANGES),
    key=st.sampled_from(["k1", "k2"]),
)


@given(st.lists(ITEMS))
def test_the_queue_is_emptied_from_its_head_and_every_group_is_told(items: list[Item]) -> None:
    left = list(items)
    while left:
        batch = combined(left)
        assert list(batch.taken) == left[: len(batch.taken)]
        assert {item.hook for item in batch.taken} == {batch.hook}
        assert {item.group for item in batch.told} == {item.group for item in batch.taken}
        assert [item for item in batch.taken if not item.group] == [item for item in batch.told if not item.group]
        left = left[len(batch.taken) :]


@given(st.lists(ITEMS))
def test_a_collapse_leaves_synchronizations_and_says_of_every_object_that_it_changed(items: list[Item]) -> None:
    left = collapsed(items)
    assert [item for item in left if item.change is None] == [item for item in items if item.change is None]

    def news(found: list[Item]) -> set[tuple[str, str, str]]:
        return {(i.hook, i.group, "" if i.group else i.binding + i.key) for i in found if i.change is not None}

    assert news(left) == news(items)
