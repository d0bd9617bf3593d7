"""How an operator is run: the parameter of the conformance suite.

A case describes an operator by what its parts do, brings facts about, and looks at what was called. It does not know
whether reconciliations run in this process or as durable workflows: that is one `HowToRun` each, in `HOWS` of
`conftest.py`. A new way of running implements the protocol and is added there; no case changes.

The rules that hold for every way stand in the cases. What a way may choose: whether different objects run in one
process, how long after a fact a reconciliation begins, and whether updates that wait for one object collapse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

type Action = Callable[[], Awaitable[None] | None]
"""What a part does when it is called: raises, sets a flag, waits; None of it is seen by the way of running."""


@dataclass(frozen=True, kw_only=True)
class ResourceSpec:
    """One resource of an operator.

    Attributes:
        name: of the resource.
        crud: whether it runs in steps.
        parts: of its patch, with their values, if it runs in steps.
        actions: by method or step.
        retries: of each operation, without a pause; 0 for a resource that is not wrapped.
    """

    name: str
    crud: bool = False
    parts: Mapping[str, Any] = field(default_factory=lambda: {"create": "c", "delete": "d", "update": "u"})
    actions: Mapping[str, Action] = field(default_factory=dict[str, Action])
    retries: int = 0


@dataclass(frozen=True, kw_only=True)
class SetSpec:
    """One resource set: which objects it handles (by the field ``spec.set``), and with what."""

    handles: Sequence[str]
    resources: Sequence[ResourceSpec]


class Observed(Protocol):
    """An operator that runs."""

    def calls(self, name: str) -> list[str]:
        """Return what was called for the object ``name`` so far, as ``resource.method`` or ``resource.step``."""
        ...

    async def put(self, name: str, *, set: str = "a", version: int = 1) -> None:  # noqa: A002 - the field's name
        """Make the object be there, in this version."""
        ...

    async def delete(self, name: str) -> None:
        """Make the object go."""
        ...

    async def settled(self) -> None:
        """Return when nothing is left to do for any object, retries included."""
        ...


class ObservedController(Protocol):
    """A controller over entities that runs."""

    def begun(self, key: str) -> int:
        """Return how often the handler was called for ``key`` so far."""
        ...

    async def put(self, key: str) -> None:
        """Make the primary be there, changed."""
        ...

    async def delete(self, key: str) -> None:
        """Make the primary go."""
        ...

    async def touch(self, key: str) -> None:
        """Change a secondary of the primary."""
        ...

    def enqueue_after(self, key: str, delay: float) -> None:
        """Ask for the key after ``delay`` seconds."""
        ...


class HowToRun(Protocol):
    """A way of running operators."""

    def framework(self, sets: Sequence[SetSpec]) -> AbstractAsyncContextManager[Observed]:
        """Run an operator of these sets inside the block; it is stopped in order at the end."""
        ...

    def controller(
        self, handle: Callable[[str], Awaitable[None]], *, threadiness: int = 4
    ) -> AbstractAsyncContextManager[ObservedController]:
        """Run a controller over entities inside the block; it is stopped in order at the end."""
        ...
