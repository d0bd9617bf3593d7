"""What has to change, in the three parts that are applied one after the other."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final


class _Unset(Enum):
    UNSET = "unset"


_UNSET: Final = _Unset.UNSET


class Change(Enum):
    """The parts of a patch in the order they are applied.

    The contract names two orders; code and tests of operatorkit have this one, and so have we (design.md section 1).
    """

    CREATE = "create"
    DELETE = "delete"
    UPDATE = "update"


class Patch:
    """What `CRUDResourceOps.new_update_patch` and `new_delete_patch` return.

    (contract: Patch, NewPatch; frameworks.md section 1.5)

    A part counts once it is set, whatever its value: None, an empty list and False are values too, and are handed to
    the apply step. A part that is not set is not applied. Setting a part again replaces it.
    """

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: dict[Change, Any] = dict.fromkeys(Change, _UNSET)

    def set_create_change(self, create: Any) -> None:
        """Set what `apply_create_change` is given (contract: SetCreateChange)."""
        self._changes[Change.CREATE] = create

    def set_delete_change(self, delete: Any) -> None:
        """Set what `apply_delete_change` is given (contract: SetDeleteChange)."""
        self._changes[Change.DELETE] = delete

    def set_update_change(self, update: Any) -> None:
        """Set what `apply_update_change` is given (contract: SetUpdateChange)."""
        self._changes[Change.UPDATE] = update

    def changes(self) -> tuple[tuple[Change, Any], ...]:
        """Return the parts that are set with their values: create, delete, update."""
        return tuple((part, value) for part, value in self._changes.items() if value is not _UNSET)

    def __repr__(self) -> str:
        # Values may hold secrets.
        return f"Patch({', '.join(part.value for part, _ in self.changes())})"
