"""Metrics that packages make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windlass.domain.hooks.metrics import Sample
from windlass.domain.ids import PackageKey


class HookMetrics(Protocol):
    """The metrics of hooks that run in this process. They are kept in memory: a restart begins anew."""

    def record(self, key: PackageKey, hook: str, samples: Sequence[Sample]) -> None:
        """Take over what one run of a hook wrote; all of it, or nothing when it fails.

        Raises:
            PermanentError: METRICS_REJECTED, a name has another type here or elsewhere, or there are too many series.
        """
        ...

    def forget(self, key: PackageKey) -> None:
        """Drop the series of a package that is no more."""
        ...
