"""By which watches objects are followed, and what is said of those that none follows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.drift.watching import LISTED, READER, KindOf, Limits, Why, parse_kinds, told, ways
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.target import Account

SHOP = Account(namespace="shop", name="windlass-application")
READER_RULES = Path(__file__).parents[3] / "deploy" / "rbac" / "reader.yaml"

kinds = st.tuples(st.sampled_from(["v1", "apps/v1", "example.dev/v1"]), st.sampled_from(["Secret", "Job", "Widget"]))


def test_a_listed_kind_is_watched_everywhere_by_the_reader_first() -> None:
    first, second = ways(("apps/v1", "Deployment"), "shop", SHOP, LISTED)
    assert (first.namespace, first.who) == ("", READER)
    assert (second.namespace, second.who) == ("shop", SHOP)


@given(kind=kinds, listed=st.frozensets(kinds), namespace=st.sampled_from(["", "shop", "other"]))
def test_the_last_way_is_always_the_package_in_the_namespace_of_the_objects(
    kind: KindOf, listed: frozenset[KindOf], namespace: str
) -> None:
    found = ways(kind, namespace, SHOP, listed)
    assert (found[-1].namespace, found[-1].who) == (namespace, SHOP)
    assert [one.who for one in found[:-1]] == ([READER] if kind in listed else [])
    assert {(one.api_version, one.kind) for one in found} == {kind}


def test_secrets_are_never_watched_by_the_reader() -> None:
    assert ("v1", "Secret") not in LISTED
    with pytest.raises(PermanentError, match="Secrets are not watched"):
        parse_kinds("v1/Secret", "KINDS")


def test_the_reader_may_read_every_listed_kind() -> None:
    roles = [one for one in yaml.safe_load_all(READER_RULES.read_text()) if one["kind"] == "ClusterRole"]
    rules = [rule for role in roles for rule in role.get("rules") or []]
    readable = {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if {"list", "watch"} <= set(rule["verbs"])
    }
    plurals = {"Ingress": "ingresses", "IngressClass": "ingressclasses", "StorageClass": "storageclasses"}
    plurals |= {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
    plurals |= {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
    for version, kind in LISTED:
        group = version.rpartition("/")[0]
        if group != "windlass.dev":  # by the role windlass-view, which is part of `view`
            assert (group, plurals.get(kind, f"{kind.lower()}s")) in readable, kind


@given(unwatched=st.lists(st.tuples(kinds, st.sampled_from(Why)), max_size=20), resync=st.integers(1, 100))
def test_what_is_said_is_short_stable_and_empty_only_if_all_is_watched(
    unwatched: list[tuple[KindOf, Why]], resync: int
) -> None:
    limits = Limits(resync=60.0 * resync)
    text = told(unwatched, SHOP, limits)
    assert bool(text) is bool(unwatched)
    assert text == told(reversed(unwatched), SHOP, limits)
    assert len(text) <= 1024
    assert not unwatched or f"every {resync} min" in text


def test_each_reason_is_named_with_its_kinds() -> None:
    unwatched = [(("v1", "Secret"), Why.REFUSED), (("example.dev/v1", "Widget"), Why.LIMIT)]
    text = told(unwatched, SHOP, Limits(watches=80))
    assert "Secret: compared every 10 min (service account windlass-application in shop may not watch them" in text
    assert "Widget: compared every 10 min (this worker has used up its watches: 80, 10 for one account)" in text


def test_kinds_are_read_with_group_and_version() -> None:
    assert parse_kinds("", "KINDS") == frozenset()
    assert parse_kinds("v1/Pod, cert-manager.io/v1/Certificate", "KINDS") == {
        ("v1", "Pod"),
        ("cert-manager.io/v1", "Certificate"),
    }


@pytest.mark.parametrize("text", ["Pod", "v1/", "/Pod", "a/b/c/Pod", "v1/pods"])
def test_what_is_not_a_kind_is_refused_by_name(text: str) -> None:
    with pytest.raises(PermanentError, match="is not a kind") as caught:
        parse_kinds(text, "KINDS")
    assert caught.value.reason is Reason.VALIDATION_FAILED
    assert caught.value.message.startswith("KINDS: ")
