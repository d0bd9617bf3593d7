from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.packages.model import Values
from windlass.domain.settings import value_patches
from windlass.domain.settings.value_patches import Operation, PatchOutcome, compact, replay

REASON = Reason.BEFORE_HELM_HOOKS_FAILED


def accept(base: Values, patch: list[Any], stored: tuple[Operation, ...] = ()) -> PatchOutcome:
    return value_patches.accept(base, stored, patch, root="web", reason=REASON)


def add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    return {"op": "remove", "path": path}


# -- form ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ({"op": "replace", "path": "/web/a", "value": 1}, "replace is not allowed"),
        ({"op": "frob", "path": "/web/a"}, "op must be one of"),
        ({"op": 3, "path": "/web/a"}, "op must be one of"),
        ({"path": "/web/a"}, "op must be one of"),
        ({"op": "add", "path": "/web/a"}, "needs value"),
        ({"op": "remove"}, "needs path"),
        ({"op": "move", "path": "/web/a"}, "needs from"),
        ({"op": "add", "path": "/other/a", "value": 1}, "must be /web or below"),
        ({"op": "add", "path": "/webapp", "value": 1}, "must be /web or below"),
        ({"op": "add", "path": "web/a", "value": 1}, "must be /web or below"),
        ({"op": "add", "path": "", "value": {}}, "must be /web or below"),
        ({"op": "add", "path": 7, "value": {}}, "must be text"),
        ({"op": "copy", "path": "/web/a", "from": "/global/a"}, "from must be /web or below"),
        ({"op": "add", "path": "/web/a~2", "value": 1}, "no JSON pointer"),
        ({"op": "remove", "path": "/web"}, "cannot be removed"),
        ({"op": "move", "path": "/web/a", "from": "/web"}, "cannot be moved"),
        ({"op": "add", "path": "/web/a", "value": float("nan")}, "not JSON"),
        ({"op": "add", "path": "/web" + "/a" * 100, "value": 1}, "more than 64 parts"),
    ],
)
def test_malformed_operations_are_the_authors(operation: dict[str, Any], told: str) -> None:
    with pytest.raises(PermanentError, match=told) as caught:
        accept({"a": 1}, [add("/web/b", 1), operation])
    assert (caught.value.reason, caught.value.actor) == (REASON, Actor.AUTHOR)
    assert "operation 1" in caught.value.message


def test_deep_values_are_refused() -> None:
    value: Any = 1
    for _ in range(70):
        value = [value]
    with pytest.raises(PermanentError, match="nested"):
        accept({}, [add("/web/a", value)])


# -- strict ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [
        remove("/web/missing"),
        remove("/web/list/7"),
        remove("/web/list/-"),
        add("/web/missing/below", 1),
        add("/web/list/7", 1),
        add("/web/text/0", 1),
        add("/web/list/x", 1),
        {"op": "test", "path": "/web/a", "value": 2},
        {"op": "test", "path": "/web/missing", "value": 2},
        {"op": "copy", "path": "/web/b", "from": "/web/missing"},
        {"op": "move", "path": "/web/map/k/below", "from": "/web/map/k"},
    ],
)
def test_a_patch_that_does_not_fit_is_tried_again(operation: Operation) -> None:
    base = {"a": 1, "list": [1], "text": "abc", "map": {"k": {}}}
    with pytest.raises(TransientError) as caught:
        accept(base, [operation])
    assert caught.value.reason is REASON
    assert operation["path"] in caught.value.message


def test_texts_do_not_quote_values() -> None:
    with pytest.raises(WindlassError) as caught:
        accept({"a": "hunter2"}, [{"op": "test", "path": "/web/a", "value": "hunter3"}])
    assert "hunter" not in str(caught.value)


def test_the_root_stays_an_object() -> None:
    with pytest.raises(PermanentError, match="must stay an object"):
        accept({"a": [1]}, [{"op": "copy", "from": "/web/a", "path": "/web"}])
    assert accept({"a": 1}, [add("/web", {"b": 2})]).values == {"b": 2}


def test_move_and_copy_are_kept_as_what_they_did() -> None:
    outcome = accept(
        {"a": {"x": 1}, "b": 2},
        [
            {"op": "test", "path": "/web/b", "value": 2},
            {"op": "move", "from": "/web/a", "path": "/web/c"},
            {"op": "copy", "from": "/web/c/x", "path": "/web/c/y"},
        ],
    )
    assert outcome.values == {"b": 2, "c": {"x": 1, "y": 1}}
    assert outcome.stored == (remove("/web/a"), add("/web/c", {"x": 1}), add("/web/c/y", 1))


def test_what_changes_nothing_is_not_kept() -> None:
    outcome = accept({"a": 1}, [add("/web/a", 1), add("/web/t", 1), remove("/web/t")])
    assert outcome == PatchOutcome(stored=(), values={"a": 1}, changed=False)


def test_true_and_one_are_different_values() -> None:
    assert accept({"a": 1}, [add("/web/a", True)]).changed


def test_patches_accumulate_over_runs() -> None:
    first = accept({"a": {}}, [add("/web/a/x", 1)])
    second = accept({"a": {}}, [add("/web/a/y", 2), remove("/web/a/x")], first.stored)
    assert second.stored == (remove("/web/a/x"), add("/web/a/y", 2))
    assert second.values == {"a": {"y": 2}}


def test_an_append_in_every_run_does_not_grow_the_list() -> None:
    base = {"list": ["user"]}
    first = accept(base, [add("/web/list/-", "hook"), add("/web/list/-", "other")])
    assert first.values == {"list": ["user", "hook", "other"]}
    second = accept(base, [add("/web/list/-", "hook")], first.stored)
    assert (second.changed, second.stored) == (False, first.stored)
    # and the user's own list is not shadowed by what the hook saw
    assert replay({"list": ["new"]}, second.stored, root="web") == {"list": ["new", "hook", "other"]}


def test_what_is_kept_is_bounded() -> None:
    with pytest.raises(PermanentError, match="too much to keep") as caught:
        accept({}, [add("/web/a", "x" * value_patches.MAX_STORED)])
    assert len(caught.value.message) < 500


# -- replay and compaction -------------------------------------------------------------------------------------------


def test_replay_passes_over_what_is_not_there() -> None:
    stored = [add("/web/a/b", 1), remove("/web/c"), add("/web/text/x", 1), add("/web/d", 2)]
    assert replay({"text": "t"}, stored, root="web") == {"text": "t", "d": 2}


def test_compaction_rules() -> None:
    history = [
        add("/web/b", 1),
        add("/web/a/x", 1),
        add("/web/a/x/deep", 1),
        add("/web/ab", 1),
        add("/web/a", {}),
        add("/web/a/y", 1),
        add("/web/b", 2),
        remove("/web/a/y"),
    ]
    assert compact(history) == (add("/web/a", {}), remove("/web/a/y"), add("/web/ab", 1), add("/web/b", 2))


KEYS = st.sampled_from(["a", "b", "c~1d"])
JSON_OBJECTS = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c/d"]), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(lambda parts: "/web/" + "/".join(parts))
OPERATIONS = st.one_of(
    st.builds(add, PATHS, JSON_OBJECTS),
    st.builds(remove, PATHS),
)
BASES = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), JSON_OBJECTS)


def valid_history(base: Values, wanted: list[Operation]) -> list[Operation]:
    """Return those operations that apply strictly, one after the other: what a package can have accepted."""
    history: list[Operation] = []
    values = base
    for operation in wanted:
        try:
            value_patches.accept(values, (), [operation], root="web", reason=REASON)
        except TransientError:
            continue
        values = replay(values, [operation], root="web")
        history.append(operation)
    return history


@given(BASES, st.lists(OPERATIONS, max_size=12), BASES)
def test_replay_of_the_compacted_is_replay_of_the_whole(base: Values, wanted: list[Operation], other: Values) -> None:
    history = valid_history(base, wanted)
    short = compact(history)
    assert replay(base, short, root="web") == replay(base, history, root="web")
    assert replay(other, short, root="web") == replay(other, history, root="web")
    assert compact(short) == short
    assert len({operation["path"] for operation in short}) == len(short)


@given(BASES, st.lists(st.lists(OPERATIONS, max_size=4), max_size=4))
def test_what_was_accepted_is_what_a_replay_gives(base: Values, patches: list[list[Operation]]) -> None:
    stored: tuple[Operation, ...] = ()
    values = base
    original = copy.deepcopy(base)
    for patch in patches:
        try:
            outcome = accept(base, patch, stored)
        except TransientError:
            continue
        assert outcome.changed == (outcome.values != values)
        stored, values = outcome.stored, outcome.values
        assert replay(base, stored, root="web") == values
    assert base == original


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3),
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "op": st.sampled_from(["add", "remove", "test", "move", "copy", "replace"]) | ANYTHING,
                "path": st.sampled_from(["/web/a", "/web/-", "/web/0/1", "/web", "/web/~0"]) | ANYTHING,
                "from": st.sampled_from(["/web/a", "/web", "/web/"]) | ANYTHING,
                "value": ANYTHING,
            },
        ),
        max_size=3,
    ),
)
def test_any_patch_is_accepted_or_refused_in_our_terms(base: Values, patch: list[dict[str, Any]]) -> None:
    try:
        outcome = accept(base, patch)
    except WindlassError:
        return
    assert replay(base, outcome.stored, root="web") == outcome.values
