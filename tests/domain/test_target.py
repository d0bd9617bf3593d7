from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import Kind, PackageKey, is_dns_label
from windlass.domain.target import Account, Kubeconfig, Target, Wish, is_reserved, placement_of

APP = PackageKey(namespace="shop", name="web")
MODULE = PackageKey(kind=Kind.MODULE, name="dns")
EDGE = Kubeconfig(name="edge")
LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("key", "wish", "target"),
    [
        (APP, Wish(), Target(account=Account(namespace="shop", name="windlass-application"), namespace="shop")),
        (
            APP,
            Wish(account="deployer", namespace="other"),
            Target(account=Account(namespace="shop", name="deployer"), namespace="other"),
        ),
        (
            APP,
            Wish(cluster=EDGE, namespace="kube-system"),
            Target(
                account=Account(namespace="shop", name="windlass-application"), cluster=EDGE, namespace="kube-system"
            ),
        ),
        (
            MODULE,
            Wish(),
            Target(account=Account(namespace="windlass-modules", name="windlass-module"), namespace="windlass-modules"),
        ),
        (
            MODULE,
            Wish(namespace="dns"),
            Target(account=Account(namespace="windlass-modules", name="windlass-module"), namespace="dns"),
        ),
    ],
)
def test_targets(key: PackageKey, wish: Wish, target: Target) -> None:
    assert placement_of(key, wish).target == target


@pytest.mark.parametrize(
    ("key", "wish", "text"),
    [
        (APP, Wish(namespace="other"), "cannot act in other"),
        (APP, Wish(create_namespace=True), "createNamespace"),
        (APP, Wish(namespace="windlass-system", account="x"), "windlass-system is reserved"),
        (APP, Wish(namespace="windlass-modules", account="x"), "windlass-modules is reserved"),
        (MODULE, Wish(namespace="kube-system"), "kube-system is reserved"),
        (MODULE, Wish(namespace="windlass-system"), "windlass-system is reserved"),
        (replace(APP, namespace="windlass-system"), Wish(), "not allowed in windlass-system"),
        (replace(APP, namespace="kube-public"), Wish(), "not allowed in kube-public"),
        (replace(APP, namespace="windlass-modules"), Wish(cluster=EDGE), "not allowed in windlass-modules"),
    ],
)
def test_refusals_name_the_field_and_a_remedy(key: PackageKey, wish: Wish, text: str) -> None:
    with pytest.raises(PermanentError) as refused:
        placement_of(key, wish)
    assert refused.value.reason is Reason.TARGET_REFUSED
    assert text in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("key", [APP, MODULE])
def test_an_installation_may_forbid_defaults(key: PackageKey) -> None:
    with pytest.raises(PermanentError, match="no default service account"):
        placement_of(key, Wish(), allow_defaults=False)
    assert placement_of(key, Wish(account="named"), allow_defaults=False).target.account.name == "named"


@given(LABELS, LABELS, st.builds(Wish, namespace=st.just("") | LABELS, account=st.just("") | LABELS))
def test_an_application_without_a_named_account_stays_in_its_namespace(namespace: str, name: str, wish: Wish) -> None:
    key = PackageKey(namespace=namespace, name=name)
    try:
        target = placement_of(key, wish).target
    except PermanentError:
        return
    assert target.account.namespace == namespace
    assert wish.account or target.namespace == namespace
    assert not is_reserved(target.namespace)
    assert not is_reserved(namespace)


@given(LABELS)
def test_the_release_is_named_after_the_object(name: str) -> None:
    release = placement_of(PackageKey(namespace="shop", name=name), Wish()).release
    assert (release == name) == (len(name) <= 53)
    assert is_dns_label(release)
    assert len(release) <= 53


def test_the_object_may_name_its_release() -> None:
    assert placement_of(APP, Wish(release="other")).release == "other"


@pytest.mark.parametrize(
    ("change", "same"),
    [({"account": "deployer"}, True), ({"release": "x"}, False), ({"cluster": EDGE}, False), ({}, True)],
)
def test_what_makes_another_place(change: dict[str, Any], same: bool) -> None:
    before, after = placement_of(APP, Wish()), placement_of(APP, Wish(**change))
    assert before.same_place(after) is same


def test_kubeconfigs_of_one_name_in_two_namespaces_are_two_places() -> None:
    other = replace(APP, namespace="stage")
    wish = Wish(cluster=EDGE, namespace="x")
    assert not placement_of(APP, wish).same_place(placement_of(other, wish))
