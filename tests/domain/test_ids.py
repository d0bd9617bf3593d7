from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from windlass.domain import ids
from windlass.domain.ids import Kind, PackageKey, is_dns_label, shorten

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
KEYS = st.builds(PackageKey, installation=st.sampled_from(["windlass", "second"]), namespace=LABELS, name=LABELS)
LIMITS = st.integers(12, 63)


@given(LABELS, LIMITS)
@example("a" * 63, 53)
@example("a" * 40 + "-" * 22 + "b", 53)
def test_shortened_names_fit_and_are_dns_labels(name: str, limit: int) -> None:
    short = shorten(name, limit)
    assert len(short) <= limit
    assert is_dns_label(short)
    assert shorten(short, limit) == short
    assert (short == name) == (len(name) <= limit)


@given(LABELS, LABELS, LIMITS)
def test_different_names_stay_different(first: str, second: str, limit: int) -> None:
    assume(first != second)
    assert shorten(first, limit) != shorten(second, limit)


@given(LABELS, st.text("abc-", min_size=1, max_size=3), st.text("abc-", min_size=1, max_size=3))
def test_long_names_with_one_prefix_stay_different(prefix: str, first: str, second: str) -> None:
    assume(first != second)
    long = (prefix * 60)[:60]
    assert shorten(long + first, 53) != shorten(long + second, 53)


@given(KEYS)
def test_names_given_outside_are_valid_there(key: PackageKey) -> None:
    assert len(ids.release_name(key)) <= ids.RELEASE_NAME_MAX
    assert is_dns_label(ids.release_name(key))
    assert len(ids.package_label(key)) <= ids.LABEL_MAX
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?", ids.record_name(key))
    assert ids.package_workflow_id(key).startswith(ids.package_workflow_prefix(key.installation))


@given(KEYS, KEYS)
def test_no_two_packages_share_a_name(first: PackageKey, second: PackageKey) -> None:
    assume(first != second)
    assert ids.package_workflow_id(first) != ids.package_workflow_id(second)
    assert ids.record_name(first) != ids.record_name(second)


@given(KEYS, st.integers(1, 64))
def test_a_shard_is_one_of_the_shards_and_stays(key: PackageKey, shards: int) -> None:
    shard = ids.shard_of(key, shards)
    assert 0 <= shard < shards
    assert shard == ids.shard_of(PackageKey(**{**vars(key), "installation": "another"}), shards)


def test_ids_of_apps_and_modules() -> None:
    app = PackageKey(namespace="prod", name="billing")
    module = PackageKey(kind=Kind.MODULE, name="dns")
    assert (app.package_id, app.home) == ("prod.billing", "prod")
    assert (module.package_id, module.home) == ("dns", "windlass-modules")
    assert ids.package_workflow_id(app) == "windlass/package/prod.billing"


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("a-b", True),
        ("", False),
        ("-a", False),
        ("a-", False),
        ("A", False),
        ("a.b", False),
        ("a\n", False),
    ],
)
def test_dns_labels(name: str, valid: bool) -> None:
    assert is_dns_label(name) is valid
