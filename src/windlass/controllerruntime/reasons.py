"""Reasons and messages of Kubernetes Events (contract: "Messages used with Kubernetes events")."""

from __future__ import annotations

import json
from typing import Final, Literal

REASON_RESOURCE_SYNCED: Final = "Synced"
"""A secondary resource was brought to its target."""

REASON_ERR_RESOURCE_EXISTS: Final = "ErrResourceExists"
"""A resource with the wanted name is somebody else's."""

MESSAGE_ERR_RESOURCE_EXISTS: Final = "Resource {} already exists and is not managed by this controller"
MESSAGE_RESOURCE_SYNCED_CREATED: Final = "{} synced successfully (created)"
MESSAGE_RESOURCE_SYNCED_UPDATED: Final = "{} synced successfully (updated)"
MESSAGE_RESOURCE_SYNCED_DELETED: Final = "{} synced successfully (deleted)"

type Change = Literal["created", "updated", "deleted"]

SYNCED: Final[dict[Change, str]] = {
    "created": MESSAGE_RESOURCE_SYNCED_CREATED,
    "updated": MESSAGE_RESOURCE_SYNCED_UPDATED,
    "deleted": MESSAGE_RESOURCE_SYNCED_DELETED,
}
"""The message after a change."""


def message(template: str, name: str) -> str:
    """Return one of the messages about the resource ``name``, which is put into double quotes (Go's ``%q``)."""
    return template.format(json.dumps(name, ensure_ascii=False))
