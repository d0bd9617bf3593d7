"""Values that the contract fixes; that every item has a counterpart is tests/architecture/test_contracts.py's."""

from __future__ import annotations

import inspect

import pytest

from windlass import controllerruntime
from windlass.controllerruntime import Operation

CONSTANTS = {
    "ReasonResourceSynced": ("REASON_RESOURCE_SYNCED", "Synced"),
    "ReasonErrResourceExists": ("REASON_ERR_RESOURCE_EXISTS", "ErrResourceExists"),
    "MessageErrResourceExists": (
        "MESSAGE_ERR_RESOURCE_EXISTS",
        "Resource {} already exists and is not managed by this controller",
    ),
    "MessageResourceSyncedCreated": ("MESSAGE_RESOURCE_SYNCED_CREATED", "{} synced successfully (created)"),
    "MessageResourceSyncedUpdated": ("MESSAGE_RESOURCE_SYNCED_UPDATED", "{} synced successfully (updated)"),
    "MessageResourceSyncedDeleted": ("MESSAGE_RESOURCE_SYNCED_DELETED", "{} synced successfully (deleted)"),
    "OwnerKeyLabel": ("OWNER_KEY_LABEL", "kumori/ownerkey"),
    "OwnerkindLabel": ("OWNER_KIND_LABEL", "kumori/ownerkind"),
    "OwnerKeyAnnotation": ("OWNER_KEY_ANNOTATION", "kumori/ownerkey"),
    "OwnerkindAnnotation": ("OWNER_KIND_ANNOTATION", "kumori/ownerkind"),
}


@pytest.mark.parametrize(("name", "value"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants(name: str, value: str) -> None:
    assert name in controllerruntime.__all__
    assert getattr(controllerruntime, name) == value


def test_operations() -> None:
    assert {one.name: int(one) for one in Operation} == {"PUT": 0, "DELETE": 1, "PURGE": 2, "SECONDARY": 3}


def test_every_public_name_says_what_it_is() -> None:
    for name in controllerruntime.__all__:
        found = getattr(controllerruntime, name)
        assert isinstance(found, str) or inspect.getdoc(found), name
