"""Context flags: how resources of one reconciliation talk to the framework and to each other.

A flag has to be installed before it can be set: setting one that is not installed does nothing, asking for it says no.
A set flag stays set. What is installed belongs to the context variables of the task that installed it, and to the
tasks it starts, so a child task can set the flag of its parent's reconciliation, and no reconciliation sees another's.

| flag | installed by | read by the framework |
|---|---|---|
| `reconciliation_canceled` | `ResourceSet.init_ctx`; `process_update`, `process_delete` where there is none | yes |
| `resource_canceled` | `process_update`, `process_delete`, anew for each resource | yes, by CRUD resources |
| `finalizers_kept` | the framework, for delete events when it keeps finalizers | yes |
| `update_allowed`, `update_necessary` | `ResourceSet.init_ctx` | no |
| `deletion_allowed` | nobody: install it in your own `init_ctx` | no |

The last three are agreements between an operator's own resources.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True, eq=False)
class FlagState:
    """What one installation of a flag holds; ``is_set`` never goes back to False."""

    is_set: bool = False


class Flag:
    """One named flag."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._state: ContextVar[FlagState | None] = ContextVar(f"windlass.framework.{name}", default=None)

    def install(self, state: FlagState | None = None) -> FlagState:
        """Install the flag for the rest of this context; return its state.

        Args:
            state: one to share with others; a fresh one if not given.
        """
        state = FlagState() if state is None else state
        self._state.set(state)
        return state

    @contextmanager
    def installed(self, state: FlagState | None = None) -> Generator[FlagState]:
        """Install the flag inside a ``with`` block; what was installed before is back after it."""
        state = FlagState() if state is None else state
        token = self._state.set(state)
        try:
            yield state
        finally:
            self._state.reset(token)

    def current(self) -> FlagState | None:
        """Return what is installed here, None if nothing is."""
        return self._state.get()

    def set(self) -> None:
        """Set the flag; does nothing when it is set already or not installed."""
        if (state := self._state.get()) is not None:
            state.is_set = True

    def is_set(self) -> bool:
        """Say whether the flag is installed and set."""
        state = self._state.get()
        return state is not None and state.is_set

    def __repr__(self) -> str:
        return f"<Flag {self.name}>"


reconciliation_canceled: Final = Flag("reconciliation_canceled")
"""Set it to end this reconciliation after the step that runs: no further step, no further resource, no error."""

resource_canceled: Final = Flag("resource_canceled")
"""Set it to end this CRUD resource after the step that runs; the next resource runs as usual."""

finalizers_kept: Final = Flag("finalizers_kept")
"""Set it on a delete event to keep the finalizer, so that the delete comes again at the next resync."""

update_allowed: Final = Flag("update_allowed")
"""An agreement between resources: an update may be made now."""

update_necessary: Final = Flag("update_necessary")
"""An agreement between resources: an update has to be made."""

deletion_allowed: Final = Flag("deletion_allowed")
"""An agreement between resources: something may be deleted now. Never installed by the framework."""
