"""Who owns a secondary: annotations are the truth, labels select."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.controllerruntime import OWNER_KEY_LABEL, OWNER_KIND_LABEL, Owner, owned, owner_of, selector
from windlass.controllerruntime.ownership import decompose, label_value
from windlass.domain.errors import PermanentError

LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
OBJECT = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"mine": "1"}}}


@pytest.mark.parametrize("key", ["shop", "team/shop", "a" * 64, "=", "-a-", "a." * 40 + "a"])
def test_any_key_survives_and_any_label_is_legal(key: str) -> None:
    owner = Owner(kind="Route", key=key)
    made = owned(OBJECT, owner)
    assert owner_of(made) == owner
    labels = made["metadata"]["labels"]
    assert labels["mine"] == "1"
    assert all(LABEL.fullmatch(labels[name]) for name in (OWNER_KEY_LABEL, OWNER_KIND_LABEL))
    wanted = dict(part.split("=") for part in selector("Route", key).split(","))
    assert wanted.items() <= labels.items()
    assert "kumori/ownerkey" not in selector("Route")
    assert OBJECT["metadata"] == {"name": "s", "labels": {"mine": "1"}}, "the original is left alone"


@given(st.text(min_size=1))
def test_labels_of_different_keys_differ(key: str) -> None:
    assert LABEL.fullmatch(label_value(key))
    assert label_value(key) != label_value(key + "/")


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"annotations": None}, {"annotations": {"kumori/ownerkey": "a"}}, {"annotations": "a"}]
    + [{"annotations": {"kumori/ownerkey": key, "kumori/ownerkind": "Route"}} for key in ("", None, 7)]
    + [{"labels": {"kumori/ownerkey": "a", "kumori/ownerkind": "Route"}}],
)
def test_half_an_owner_is_none(metadata: Any) -> None:
    assert owner_of({"metadata": metadata}) is None


@pytest.mark.parametrize(
    "obj", [None, 7, "text", [], {}, {"kind": "Service"}, {**OBJECT, "metadata": {}}, {**OBJECT, "kind": ""}]
)
def test_what_is_no_object_is_refused(obj: object) -> None:
    with pytest.raises(PermanentError, match="is no Kubernetes object"):
        decompose(obj)


def test_an_object_without_an_owner_is_an_object() -> None:
    assert decompose(OBJECT) == (OBJECT, None)
