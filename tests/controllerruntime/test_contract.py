"""Every item that the contract exports has a counterpart (contract: controllerruntime, v0.0.7)."""

from __future__ import annotations

import inspect

import pytest

from windlass import controllerruntime
from windlass.controllerruntime import ControllerRuntime, IController, Operation

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

METHODS = {
    "NewControllerRuntime": (ControllerRuntime, "__init__"),
    "DecomposeKubeSecondaryResource": (ControllerRuntime, "decompose_kube_secondary_resource"),
    "EnqueueKey": (ControllerRuntime, "enqueue_key"),
    "EnqueueKeyAfter": (ControllerRuntime, "enqueue_key_after"),
    "Event": (ControllerRuntime, "event"),
    "Run": (ControllerRuntime, "run"),
    "SetCustomController": (ControllerRuntime, "set_custom_controller"),
    "IController.Run": (IController, "run"),
    "IController.SyncHandler": (IController, "sync_handler"),
    "IController.HandleSecondary": (IController, "handle_secondary"),
    "IController.GarbageSecondaries": (IController, "garbage_secondaries"),
    "IController.Clean": (IController, "clean"),
}


@pytest.mark.parametrize(("name", "value"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants(name: str, value: str) -> None:
    assert name in controllerruntime.__all__
    assert getattr(controllerruntime, name) == value


@pytest.mark.parametrize(("owner", "name"), METHODS.values(), ids=METHODS)
def test_methods_are_there_and_say_what_they_do(owner: type, name: str) -> None:
    assert inspect.getdoc(owner if name == "__init__" else getattr(owner, name))


def test_operations() -> None:
    assert {one.name: int(one) for one in Operation} == {"PUT": 0, "DELETE": 1, "PURGE": 2, "SECONDARY": 3}


def test_every_public_name_says_what_it_is() -> None:
    for name in controllerruntime.__all__:
        found = getattr(controllerruntime, name)
        assert isinstance(found, str) or inspect.getdoc(found), name
