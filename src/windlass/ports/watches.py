"""The watches of hooks' kubernetes bindings, and the mailboxes their news wait in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from windlass.contracts.record import BindingRecord, WatchedRecord
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Hook
from windlass.domain.target import Placement


@dataclass(frozen=True, kw_only=True)
class EventRun:
    """What the next run of one queue is about.

    ``context`` is the content of ``BINDING_CONTEXT_PATH``; ``items`` counts the news it stands for.
    """

    hook: Hook
    context: list[dict[str, Any]]
    items: int
    allow_failure: bool


type BeginAhead = Callable[[str], asyncio.Task[Any]]
"""Begins the next run of a queue under this run id, before the lifecycle has been told that something waits."""


class PackageWatch(Protocol):
    """The enabled bindings of one package."""

    def waiting(self) -> tuple[str, ...]:
        """Return the queues in which something waits; who asks sees to it that they are run."""
        ...

    def waits(self, queue: str) -> bool:
        """Say whether something waits in ``queue``; who asks sees to it that it is run."""
        ...

    def announce(self) -> None:
        """Signal every queue in which something waits and that nobody has been told of."""
        ...

    def unsynchronized(self) -> int:
        """Return how many Synchronizations are left that the first release waits for."""
        ...

    def take(self, queue: str) -> EventRun | None:
        """Return what the next run of ``queue`` is about, None if nothing waits.

        Taken again after a failure, it is about what has come in since as well.

        Raises:
            PermanentError: FORBIDDEN, or what else keeps a watch of this queue from working.
        """
        ...

    def after(self, queue: str) -> dict[str, BindingRecord]:
        """Return what the hooks will have been told when the run of ``queue`` is done."""
        ...

    def done(self, queue: str) -> bool:
        """Drop what the run was about; say whether more waits. If not, the next news are signalled."""
        ...

    def reports(self, queue: str) -> tuple[str, ...]:
        """Return, once, what people should know of this queue's watches."""
        ...


class HookWatches(Protocol):
    """All watches of this process."""

    async def open(self, key: PackageKey, placement: Placement, watched: WatchedRecord) -> PackageWatch:
        """Return the watch of ``key``, with complete lists; one of another content or identity is closed first.

        Raises:
            PermanentError: FORBIDDEN, the hooks may not watch what they want to; names the binding.
            TransientError: the kind is not served (yet), or the API server does not answer.
        """
        ...

    async def close(self, key: PackageKey) -> None:
        """End the watches of ``key``; what waits is dropped. None is fine."""
        ...

    def has_news(self, key: PackageKey, queue: str) -> bool:
        """Say whether something waits in ``queue``; who asks sees to it that it is run."""
        ...

    def allow(self, key: PackageKey, queue: str, begin: BeginAhead, *, since: float) -> None:
        """Let the next run of ``queue`` begin with the news that it is about; once.

        Only if nothing waits there, and if no `hold` is as new as ``since``.
        """
        ...

    def hold(self, key: PackageKey, *, since: float) -> None:
        """Take back what was allowed: lifecycles come first again. What runs goes on."""
        ...

    async def snapshots(
        self, key: PackageKey, placement: Placement, hook: Hook
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the objects of every kubernetes binding of ``hook``, by the bindings' names.

        Of a package without open watches the objects are listed now.
        """
        ...
