"""Which service and which ServiceSet (kcm.md section 2: ServiceKey, ObjectKey)."""

from __future__ import annotations

import hashlib

import pytest
from domain.servicesets.words import CLUSTER, SYSTEM, mcs

from windlass.servicesets import ClusterDeployment, MultiClusterService, ObjectKey, ServiceKey, object_key, service_key


@pytest.mark.parametrize(
    ("namespace", "name", "key", "text"),
    [
        ("", "a", ServiceKey("default", "a"), "default/a"),
        ("default", "a", ServiceKey("default", "a"), "default/a"),
        ("web", "a", ServiceKey("web", "a"), "web/a"),
    ],
)
def test_service_key(namespace: str, name: str, key: ServiceKey, text: str) -> None:
    assert service_key(namespace, name) == key
    assert str(key) == text


@pytest.mark.parametrize(
    ("cluster", "owner", "key"),
    [
        (CLUSTER, None, ObjectKey("prod", "edge")),
        (CLUSTER, mcs("mcs0"), ObjectKey("prod", "edge-6ec16280")),
        (None, mcs("mcs0"), ObjectKey(SYSTEM, "management-6ec16280")),
        (
            None,
            MultiClusterService.new("team", "mcs0"),
            ObjectKey(SYSTEM, "management-" + hashlib.sha256(b"team/mcs0").hexdigest()[:8]),
        ),
    ],
)
def test_object_key(cluster: ClusterDeployment | None, owner: MultiClusterService | None, key: ObjectKey) -> None:
    assert object_key(SYSTEM, cluster, owner) == key


def test_object_key_of_nobody() -> None:
    with pytest.raises(ValueError, match="belongs to a cluster"):
        object_key(SYSTEM, None, None)


def test_a_long_cluster_name_leaves_room_for_the_hash() -> None:
    one, other = (ClusterDeployment.new("prod", "c" * 252 + last) for last in "xy")
    names = {object_key(SYSTEM, item, mcs("mcs0")).name for item in (one, other)}
    assert len(names) == 2
    assert all(len(name) == 253 and name.endswith("-6ec16280") for name in names)
