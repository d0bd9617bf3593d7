"""What counts as a change, and how news look in a context."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.hooks.bindings import Change, KubernetesBinding
from windlass.domain.hooks.events import (
    changed,
    differences,
    entry_of,
    event_context,
    filter_result,
    gone_entry,
    sorted_entries,
    told_object,
)
from windlass.domain.hooks.mailbox import Item

STATES = st.dictionaries(st.sampled_from(["/a", "/b", "x/a", "x/b"]), st.sampled_from(["1", "2"]))


def obj(name: str, namespace: str = "prod", **fields: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "managedFields": [1]}, **fields}


def test_a_checksum_is_of_the_filters_result_only() -> None:
    binding = KubernetesBinding(kind="Pod", jq_filter=".a")
    one, two, three = (entry_of(binding, obj("p", a=a, b=b), [a]) for a, b in ((1, 1), (1, 2), (2, 2)))
    assert one.checksum == two.checksum != three.checksum
    whole = KubernetesBinding(kind="Pod")
    assert entry_of(whole, obj("p", b=1), None).checksum != entry_of(whole, obj("p", b=2), None).checksum


def test_what_is_shown_of_an_object_is_what_the_binding_wants() -> None:
    shown = told_object(obj("p"))
    assert "managedFields" not in shown["metadata"]
    assert entry_of(KubernetesBinding(kind="Pod"), shown, None).told == {"object": shown}
    lean = KubernetesBinding(kind="Pod", jq_filter=".", keep_objects=False)
    assert entry_of(lean, shown, []).told == {"filterResult": None}
    gone = gone_entry(KubernetesBinding(kind="Pod", jq_filter="."), "prod/p")
    assert gone.told == {
        "object": {"kind": "Pod", "metadata": {"name": "p", "namespace": "prod"}},
        "filterResult": None,
    }
    assert gone_entry(KubernetesBinding(kind="Node"), "/n").told["object"]["metadata"] == {"name": "n"}


def test_no_result_is_null_one_is_itself_and_several_are_a_list() -> None:
    assert (filter_result([]), filter_result([1]), filter_result([1, 2])) == (None, 1, [1, 2])


def test_an_unchanged_checksum_is_no_change() -> None:
    assert (changed(None, "1"), changed("1", "1"), changed("1", "2")) == (Change.ADDED, None, Change.MODIFIED)


@given(STATES, STATES)
def test_differences_lead_from_one_state_to_the_other(known: dict[str, str], now: dict[str, str]) -> None:
    state = dict(known)
    for change, key in differences(known, now):
        if change is Change.DELETED:
            del state[key]
        else:
            assert (key in state) == (change is Change.MODIFIED)
            state[key] = now[key]
    assert state == now
    assert differences(now, now) == []


def test_snapshots_are_in_the_order_of_namespace_and_name() -> None:
    binding = KubernetesBinding(kind="Pod")
    entries = [
        entry_of(binding, obj(name, ns), None) for ns, name in (("b", "a"), ("a", "b"), ("a-1", "a"), ("a", "a"))
    ]
    found = [
        (one["object"]["metadata"]["namespace"], one["object"]["metadata"]["name"]) for one in sorted_entries(entries)
    ]
    assert found == [("a", "a"), ("a", "b"), ("a-1", "a"), ("b", "a")]


def test_each_kind_of_news_has_its_shape() -> None:
    bindings = {
        "plain": KubernetesBinding(kind="Pod", name="p"),
        "grouped": KubernetesBinding(kind="Pod", name="g", group="all", snapshots_from=("g", "p")),
        "rich": KubernetesBinding(kind="Pod", name="r", snapshots_from=("p", "none")),
    }
    items = [
        Item(sequence=1, hook="h", binding="plain"),
        Item(sequence=2, hook="h", binding="plain", change=Change.DELETED, told={"object": 1}),
        Item(sequence=3, hook="h", binding="grouped", group="all"),
        Item(sequence=4, hook="h", binding="rich", change=Change.ADDED, told={"filterResult": None}),
    ]
    snapshots = {"p": [{"object": 1}], "g": []}
    assert event_context(items, bindings, {"plain": [{"object": 1}]}, snapshots) == [
        {"binding": "p", "type": "Synchronization", "objects": [{"object": 1}]},
        {"binding": "p", "type": "Event", "watchEvent": "Deleted", "object": 1},
        {"binding": "g", "type": "Group", "groupName": "all", "snapshots": snapshots},
        {
            "binding": "r",
            "type": "Event",
            "watchEvent": "Added",
            "filterResult": None,
            "snapshots": {"p": [{"object": 1}], "none": []},
        },
    ]
