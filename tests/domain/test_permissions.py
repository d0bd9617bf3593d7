"""What an account may do to the objects of a manifest, decided from rules and answers, and how it is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.permissions import (
    ANY,
    SHOWN,
    VERBS,
    Access,
    Forbidden,
    Item,
    Rule,
    accesses,
    permits,
    questions,
    remedy,
    reviewed,
    told,
)
from windlass.domain.target import Account, Kubeconfig, Target

SHOP = Target(account=Account(namespace="shop", name="windlass-application"), namespace="shop")
MODULE = Target(account=Account(namespace="windlass-modules", name="windlass-module"), namespace="dns")
ROLE = Item(group="rbac.authorization.k8s.io", resource="clusterroles", kind="ClusterRole", name="web")
MAP = Item(group="", resource="configmaps", kind="ConfigMap", namespace="other", name="web")

words = st.sampled_from(["", "apps", "a", "b"])
items = st.builds(
    Item, group=words, resource=words, kind=st.just("K"), namespace=st.sampled_from(["", "x", "y"]), name=words
)
some = st.frozensets(st.sampled_from([*VERBS, "", "apps", "a", "b", ANY]), max_size=4)
names = st.frozensets(st.sampled_from([*VERBS, "apps", "a", "b"]), max_size=4)  # no object has an empty name
rules = st.lists(st.builds(Rule, verbs=some, groups=some, resources=some, names=names), max_size=4)
by_namespace = st.dictionaries(st.sampled_from(["", "x", "y"]), rules, max_size=3)


def rule(verbs: str, resources: str, *names: str, group: str = "") -> Rule:
    return Rule(
        verbs=frozenset(verbs.split()),
        groups=frozenset({group}),
        resources=frozenset(resources.split()),
        names=frozenset(names),
    )


@given(found=st.lists(items, max_size=6), rules=by_namespace)
def test_no_question_is_asked_twice_or_about_what_a_rule_allows(
    found: list[Item], rules: dict[str, list[Rule]]
) -> None:
    asked = questions(found, rules)
    assert len(set(asked)) == len(asked)
    for access in asked:
        assert not access.name
        if access.namespace:
            assert not permits(rules.get(access.namespace, ()), access)


@given(found=st.lists(items, max_size=6), rules=by_namespace, allowed=st.booleans())
def test_every_object_is_forbidden_unknown_or_allowed_as_the_answers_say(
    found: list[Item], rules: dict[str, list[Rule]], *, allowed: bool
) -> None:
    asked = questions(found, rules)
    assert reviewed(found, dict.fromkeys(asked, True), rules) == reviewed([], {}, {})
    denied = reviewed(found, dict.fromkeys(asked, False), rules)
    left = reviewed(found, {}, rules)
    assert {one.item for one in denied.forbidden} == set(left.unknown)
    assert left.forbidden == denied.unknown == ()
    if allowed:
        named = {access: True for item in found for access in accesses(item)}
        assert not reviewed(found, dict.fromkeys(asked, False) | named, rules).forbidden


@given(found=st.lists(items, max_size=6), rules=by_namespace)
def test_rules_of_a_namespace_say_nothing_of_what_has_none(found: list[Item], rules: dict[str, list[Rule]]) -> None:
    everything = {"": [Rule(verbs=frozenset({ANY}), groups=frozenset({ANY}), resources=frozenset({ANY}))]}
    outside = {access.unnamed for item in found if not item.namespace for access in accesses(item)}
    assert outside <= set(questions(found, rules | everything))


def test_rules_for_names_hold_for_these_names_and_never_for_create() -> None:
    limited = [rule("get create", "configmaps", "web")]
    ask = Access(verb="get", group="", resource="configmaps", namespace="x", name="web")
    assert permits(limited, ask)
    assert not permits(limited, ask.unnamed)
    assert not permits(limited, Access(verb="create", group="", resource="configmaps", namespace="x"))


def test_a_rule_for_another_group_does_not_count() -> None:
    access = Access(verb="get", group="apps", resource="deployments", namespace="x")
    assert not permits([rule("get", "deployments")], access)
    assert permits([rule("get", "deployments", group="apps")], access)


def test_all_objects_are_named_in_one_message() -> None:
    answers = dict.fromkeys(questions([ROLE, MAP], {}), False) | {
        Access(verb="get", group="", resource="configmaps", namespace="other"): True
    }
    text = told(reviewed([ROLE, MAP], answers, {}).forbidden, SHOP.whom)
    assert text == (
        "service account windlass-application in shop may not install 2 objects: "
        "ConfigMap/web in namespace other (create, patch, delete configmaps); "
        "ClusterRole/web (get, create, patch, delete clusterroles.rbac.authorization.k8s.io)"
    )


def test_a_message_is_bounded_and_says_how_many_more_there_are() -> None:
    many = [Forbidden(item=Item(group="", resource="r", kind="K", name=f"n{n}"), verbs=VERBS) for n in range(SHOWN + 7)]
    assert told(many, "x").endswith("; and 7 more")


def test_the_remedy_fits_where_the_objects_are() -> None:
    [role, inside] = [Forbidden(item=one, verbs=VERBS) for one in (ROLE, MAP)]
    both = remedy([role, inside], SHOP)
    for part in ("Module", "spec.target.serviceAccountName", "ClusterRoleBinding", "a Role with these rights", "other"):
        assert part in both
    home = Forbidden(item=Item(group="", resource="pods", kind="Pod", namespace="shop", name="x"), verbs=VERBS)
    assert "Module" not in remedy([home], SHOP)
    assert "windlass.dev/aggregate-to-application" in remedy([home], SHOP)


def test_a_module_and_another_cluster_have_remedies_of_their_own() -> None:
    role = Forbidden(item=ROLE, verbs=VERBS)
    assert remedy([role], MODULE).startswith("bind a ClusterRole with these rights to service account windlass-module")
    edge = Target(account=SHOP.account, cluster=Kubeconfig(name="edge"), namespace="shop")
    assert "the user of the kubeconfig in Secret edge" in remedy([role], edge)
