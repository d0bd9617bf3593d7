"""Where objects differ from what the manifest makes of them, what is ignored, and when a fight is given up."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.drift.comparison import (
    LIMIT,
    WINDOW,
    Change,
    Correction,
    Difference,
    Mode,
    Policy,
    Rule,
    approximated,
    differing,
    digest,
    held,
    is_expendable,
    manager_of,
    merge_patch,
    pointer,
    remembered,
    tokens,
    without_ignored,
    without_nulls,
)

LIVE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "prod", "resourceVersion": "1", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {"name": "web", "image": "web:1", "args": ["a", "b"]},
                    {"name": "sidecar", "image": "sidecar:1"},
                ]
            }
        },
    },
    "status": {"replicas": 2},
}

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
keys = st.text(alphabet="ab/~.", min_size=1, max_size=3)
trees = st.recursive(scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one, max_size=3))
objects = st.dictionaries(keys, trees, max_size=4)


def changed(path: str, value: Any) -> dict[str, Any]:
    """What the manifest makes of LIVE if it says ``value`` at ``path``; None takes the member away."""
    wanted: Any = copy.deepcopy(LIVE)
    *above, last = tokens(path)
    at = wanted
    for part in above:
        at = at[int(part)] if isinstance(at, list) else at[part]
    at[int(last) if isinstance(at, list) else last] = value
    return wanted


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("/spec/replicas", 3, [("/spec/replicas", Change.CHANGED)]),
        ("/spec/replicas", 2, []),
        ("/spec/paused", True, [("/spec/paused", Change.REMOVED)]),
        ("/status/replicas", 7, []),
        ("/metadata/resourceVersion", "9", []),
        ("/metadata/managedFields", [{}], []),
        ("/metadata/generation", 5, []),
        ("/metadata/labels/example.com~1x", "y", [("/metadata/labels/example.com~1x", Change.REMOVED)]),
        (
            "/spec/template/spec/containers/1/image",
            "sidecar:2",
            [("/spec/template/spec/containers/1/image", Change.CHANGED)],
        ),
        ("/spec/template/spec/containers/0/args", ["a"], [("/spec/template/spec/containers/0/args", Change.CHANGED)]),
        (
            "/spec/template/spec/containers",
            [*LIVE["spec"]["template"]["spec"]["containers"], {"name": "third"}],
            [("/spec/template/spec/containers/2", Change.REMOVED)],
        ),
        ("/spec/replicas", True, [("/spec/replicas", Change.CHANGED)]),
    ],
)
def test_what_differs(path: str, value: Any, found: list[tuple[str, Change]]) -> None:
    assert list(differing(LIVE, changed(path, value))) == found


def test_one_is_not_true() -> None:
    assert differing({"spec": {"a": 1}}, {"spec": {"a": True}}) == (("/spec/a", Change.CHANGED),)


def test_items_are_found_by_name_whatever_their_order() -> None:
    live = {"spec": {"env": [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]}}
    wanted = {"spec": {"env": [{"name": "a", "value": "1"}, {"name": "b", "value": "3"}]}}
    assert differing(live, wanted) == (("/spec/env/1/value", Change.CHANGED),)


@pytest.mark.parametrize(
    ("rule", "ignored"),
    [
        (Rule(paths=("/spec/replicas",)), True),
        (Rule(paths=("spec.replicas",)), True),
        (Rule(paths=("spec.*",)), True),
        (Rule(paths=("spec",)), True),
        (Rule(kind="Deployment", group="apps", name="w*", namespace="prod", paths=("/spec/replicas",)), True),
        (Rule(kind="StatefulSet", paths=("/spec/replicas",)), False),
        (Rule(group="batch", paths=("/spec/replicas",)), False),
        (Rule(name="db", paths=("/spec/replicas",)), False),
        (Rule(namespace="test", paths=("/spec/replicas",)), False),
        (Rule(paths=("/spec/replica",)), False),
        (Rule(paths=("/spec/replicas/deeper",)), False),
    ],
)
def test_what_rules_ignore(rule: Rule, *, ignored: bool) -> None:
    wanted = changed("/spec/replicas", 3)
    assert (differing(LIVE, without_ignored(wanted, LIVE, [rule])) == ()) is ignored


def test_rules_reach_into_lists() -> None:
    wanted = changed("/spec/template/spec/containers/1/image", "sidecar:2")
    everywhere = Rule(paths=("/spec/template/spec/containers/*/image",))
    first = Rule(paths=("/spec/template/spec/containers/0/image",))
    assert differing(LIVE, without_ignored(wanted, LIVE, [everywhere])) == ()
    assert differing(LIVE, without_ignored(wanted, LIVE, [first])) != ()


def test_what_live_lacks_is_ignored_too() -> None:
    wanted = changed("/metadata/annotations", {"a": "b"})
    assert differing(LIVE, without_ignored(wanted, LIVE, [Rule(paths=("metadata.annotations.a",))])) == (
        ("/metadata/annotations", Change.REMOVED),
    )
    assert differing(LIVE, without_ignored(wanted, LIVE, [Rule(paths=("metadata.annotations",))])) == ()


@pytest.mark.parametrize("path", ["", "/", "//a", "a..b", "."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        tokens(path)


def test_a_backslash_keeps_a_dot() -> None:
    assert tokens("metadata.annotations.example\\.com/x") == ("metadata", "annotations", "example.com/x")


@given(st.lists(keys, min_size=1))
def test_a_pointer_is_read_back(parts: list[str]) -> None:
    assert list(tokens(pointer(parts))) == parts


@given(objects, objects)
def test_the_patch_makes_the_wanted_object(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    live, wanted = ({"spec": without_nulls(one)} for one in (live, wanted))
    patch = merge_patch(live, wanted)
    assert bool(patch) == bool(differing(live, wanted))
    assert differing(_applied(live, patch), wanted) == ()


@given(objects)
def test_an_object_does_not_differ_from_itself(obj: dict[str, Any]) -> None:
    assert differing(obj, copy.deepcopy(obj)) == ()
    assert approximated(obj, copy.deepcopy(obj)) == obj


@given(objects, objects)
def test_everything_ignored_is_nothing_different(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    both = ({"metadata": {}, "spec": one} for one in (live, wanted))
    before, after = both
    assert differing(before, without_ignored(after, before, [Rule(paths=("spec",))])) == ()


@given(objects, objects)
def test_comparing_changes_nothing(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    before = copy.deepcopy((live, wanted))
    without_ignored(wanted, live, [Rule(paths=("a.*", "b"))])
    differing(live, wanted)
    merge_patch(live, wanted)
    approximated(live, wanted)
    assert (live, wanted) == before


def _applied(obj: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _applied(result.get(key), value)
    return result


@pytest.mark.parametrize(
    ("path", "manager"),
    [
        ("/spec/replicas", "hpa (scale)"),
        ("/spec/template/spec/containers/0/image", "kubectl-edit"),
        ("/data/key", ""),
        ("", ""),
    ],
)
def test_who_wrote_it(path: str, manager: str) -> None:
    containers = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}}}
    live = {
        "metadata": {
            "managedFields": [
                {"manager": "helm", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {
                    "manager": "hpa",
                    "subresource": "scale",
                    "time": "2026-01-02T00:00:00Z",
                    "fieldsV1": {"f:spec": {"f:replicas": {}}},
                },
                {"manager": "kubectl-edit", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:spec": containers}},
            ]
        }
    }
    assert manager_of(live, path) == manager


def test_what_the_api_server_does_not_know_is_no_difference_by_approximation() -> None:
    live = {"spec": {"known": "a", "defaulted": 1, "items": [1, 2]}}
    expected = {"spec": {"known": "b", "typo": "x", "items": [1]}}
    assert approximated(live, expected) == {"spec": {"known": "b", "defaulted": 1, "items": [1, 2]}}


def test_a_job_with_a_time_to_live_may_go() -> None:
    assert is_expendable({"kind": "Job", "spec": {"ttlSecondsAfterFinished": 0}})
    assert not is_expendable({"kind": "Job", "spec": {}})
    assert not is_expendable({"kind": "ConfigMap"})


def difference(name: str, **fields: Any) -> Difference:
    return Difference(**{"kind": "ConfigMap", "name": name, "change": Change.CHANGED, **fields})


@given(st.permutations([difference("a"), difference("b", path="/x"), difference("c", change=Change.ABSENT)]))
def test_the_digest_does_not_hang_on_order_or_manager(found: list[Difference]) -> None:
    known = digest([difference("a", manager="x"), difference("b", path="/x"), difference("c", change=Change.ABSENT)])
    assert digest(found) == known != digest(found[1:])
    assert digest([]) == ""


def test_a_field_is_held_when_it_was_put_back_too_often() -> None:
    corrections: tuple[Correction, ...] = ()
    for second in range(LIMIT):
        assert held(corrections, second) == {}
        corrections = remembered(corrections, ["a", "b"] if second == 0 else ["a"], second)
    assert held(corrections, LIMIT) == {"a": WINDOW}
    assert held(corrections, WINDOW) == {}
    assert {one.field for one in remembered(corrections, [], WINDOW)} == {"a"}


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=60), st.booleans()), max_size=200))
def test_no_field_is_put_back_more_often_than_the_limit_in_any_window(steps: list[tuple[float, bool]]) -> None:
    now, corrections, done = 1000.0, (), []
    for wait, drifts in steps:
        now += wait
        if drifts and "a" not in held(corrections, now):
            corrections = remembered(corrections, ["a"], now)
            done.append(now)
    for start in done:
        assert len([at for at in done if start <= at < start + WINDOW]) <= LIMIT


@pytest.mark.parametrize(
    ("policy", "restores", "corrects"),
    [
        (Policy(), True, False),
        (Policy(mode=Mode.CORRECT), True, True),
        (Policy(mode=Mode.OFF), False, False),
        (Policy(mode=Mode.CORRECT, maintenance=True), False, False),
    ],
)
def test_what_a_policy_allows(policy: Policy, *, restores: bool, corrects: bool) -> None:
    assert (policy.restores, policy.corrects) == (restores, corrects)
