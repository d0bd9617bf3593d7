"""What a hook may say of the objects it follows."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.hooks.bindings import Change, Selection
from windlass.domain.hooks.kubernetes_bindings import MAX_BINDINGS, parse_bindings

PATH = "hooks/x.sh"


def test_a_kind_is_enough() -> None:
    (binding,) = parse_bindings(PATH, [{"kind": "pods"}])
    assert (binding.name, binding.queue, binding.changes) == ("kubernetes", "main", tuple(Change))
    assert binding.on_synchronization
    assert binding.waited
    assert binding.keep_objects
    assert binding.selections("v1", "Pod", ("prod",)) == (Selection(api_version="v1", kind="Pod", namespace="prod"),)


def test_every_field_is_taken() -> None:
    given = {
        "name": "all",
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "executeHookOnEvent": ["Deleted", "Added"],
        "executeHookOnSynchronization": False,
        "waitForSynchronization": False,
        "keepFullObjectsInMemory": False,
        "jqFilter": ".a",
        "allowFailure": True,
        "resynchronizationPeriod": "1h",
        "nameSelector": {"matchNames": ["b", "a"]},
        "labelSelector": {
            "matchLabels": {"x": "", "a": "b"},
            "matchExpressions": [
                {"key": "k", "operator": "In", "values": ["v", "u"]},
                {"key": "n", "operator": "NotIn", "values": ["v"]},
                {"key": "e", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist"},
            ],
        },
        "fieldSelector": {"matchExpressions": [{"field": "status.phase", "operator": "NotEquals", "value": "Failed"}]},
        "namespace": {
            "nameSelector": {"matchNames": ["prod"]},
            "labelSelector": {"matchLabels": {"team": "a"}},
        },
        "includeSnapshotsFrom": ["all"],
        "queue": "slow",
        "group": "g",
    }
    (binding,) = parse_bindings(PATH, [given])
    assert binding.changes == (Change.ADDED, Change.DELETED)
    assert not binding.on_synchronization
    assert not binding.waited
    assert not binding.keep_objects
    assert (binding.namespaces, binding.namespace_labels) == (("prod",), "team=a")
    assert (binding.queue, binding.group, binding.snapshots_from) == ("slow", "g", ("all",))
    first, second = binding.selections("apps/v1", "Deployment", ("prod",))
    assert first.label_selector == "!d,a=b,e,k in (u,v),n notin (v),x="
    assert first.field_selector == "metadata.name=a,status.phase!=Failed"
    assert second.field_selector == "metadata.name=b,status.phase!=Failed"


def test_waiting_cannot_be_switched_off_in_the_main_queue() -> None:
    (binding,) = parse_bindings(PATH, [{"kind": "Pod", "waitForSynchronization": False}])
    assert binding.waited


def test_the_old_name_of_the_events_counts_where_the_new_one_is_not_given() -> None:
    old, both = parse_bindings(
        PATH,
        [
            {"kind": "Pod", "watchEvent": ["Added"]},
            {"kind": "Pod", "watchEvent": ["Added"], "executeHookOnEvent": []},
        ],
    )
    assert (old.changes, both.changes) == ((Change.ADDED,), ())


def test_a_group_has_the_snapshots_of_its_members() -> None:
    one, two, three = parse_bindings(
        PATH,
        [
            {"kind": "Pod", "name": "p", "group": "g", "includeSnapshotsFrom": ["s"]},
            {"kind": "Secret", "name": "s"},
            {"kind": "Node", "name": "n", "group": "g"},
        ],
    )
    assert (one.snapshots_from, two.snapshots_from, three.snapshots_from) == (("s", "p", "n"), (), ("p", "n"))


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({}, "kubernetes", "an object, expected a list"),
        ([], "kubernetes", "a list, expected a list of at least one binding"),
        ([{"kind": "Pod"}] * (MAX_BINDINGS + 1), "kubernetes", "101 bindings, expected at most 100"),
        (["Pod"], "kubernetes[0]", "'Pod', expected an object"),
        ([{}], "kubernetes[0].kind", "nothing, expected text"),
        ([{"kind": "Pod", "mode": "x"}], "kubernetes[0].mode", "unknown key"),
        ([{"kind": "Pod"}, {"kind": ""}], "kubernetes[1].kind", "'', expected text"),
        ([{"kind": "Pod", "apiVersion": "a/b/c"}], "kubernetes[0].apiVersion", "expected a version"),
        ([{"kind": "Pod", "executeHookOnSynchronization": "ok"}], "executeHookOnSynchronization", "true or false"),
        ([{"kind": "Pod", "executeHookOnEvent": ["Gone"]}], "executeHookOnEvent", "Added, Modified, Deleted"),
        ([{"kind": "Pod", "jqFilter": 1}], "jqFilter", "1, expected text"),
        ([{"kind": "Pod", "namespace": {"nameSelector": ["a"]}}], "namespace.nameSelector", "a list, expected an"),
        ([{"kind": "Pod", "namespace": {}}], "namespace", "an empty object"),
        ([{"kind": "Pod", "labelSelector": {}}], "labelSelector", "an empty object"),
        ([{"kind": "Pod", "labelSelector": {"matchLabels": {"a": 1}}}], "labelSelector.matchLabels.a", "1, expected"),
        ([{"kind": "Pod", "labelSelector": {"matchLabels": {"a": "b,c"}}}], "matchLabels.a", "a label's value"),
        (
            [{"kind": "Pod", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}],
            "labelSelector.matchExpressions.values",
            "expected at least one with In",
        ),
        (
            [{"kind": "Pod", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Has"}]}}],
            "labelSelector.matchExpressions.operator",
            "'Has', expected one of In",
        ),
        (
            [{"kind": "Pod", "fieldSelector": {"matchExpressions": [{"field": "a", "operator": "In", "value": "b"}]}}],
            "fieldSelector.matchExpressions.operator",
            "'In', expected one of =",
        ),
        (
            [
                {
                    "kind": "Pod",
                    "nameSelector": {"matchNames": ["a"]},
                    "fieldSelector": {"matchExpressions": [{"field": "metadata.name", "operator": "=", "value": "b"}]},
                }
            ],
            "fieldSelector.matchExpressions",
            "selected by nameSelector already",
        ),
        ([{"kind": "Pod", "includeSnapshotsFrom": []}], "includeSnapshotsFrom", "an empty list"),
        ([{"kind": "Pod", "includeSnapshotsFrom": ["x"]}], "includeSnapshotsFrom", "'x' names 0 bindings"),
        (
            [{"kind": "Pod", "includeSnapshotsFrom": ["kubernetes"]}, {"kind": "Pod"}],
            "includeSnapshotsFrom",
            "'kubernetes' names 2 bindings",
        ),
    ],
)
def test_a_wrong_binding_names_file_key_and_what_is_expected(given: Any, key: str, says: str) -> None:
    with pytest.raises(PermanentError) as caught:
        parse_bindings(PATH, given)
    error = caught.value
    assert (error.reason, error.actor) == (Reason.INIT_HOOKS_FAILED, Actor.AUTHOR)
    assert error.message.startswith(f"{PATH} --config: kubernetes")
    assert key in error.message
    assert says in error.message
