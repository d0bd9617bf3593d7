"""The last step of a removal before the finalizer: what belongs to the package besides its release."""

from __future__ import annotations

from temporalio import activity

from windlass.contracts.steps import PackageRequest
from windlass.ports.metrics import HookMetrics
from windlass.ports.packages import Packages
from windlass.ports.records import Records
from windlass.ports.watches import HookWatches


class CleaningActivities:
    """Everything here may be gone already: repeating it is safe."""

    def __init__(
        self,
        *,
        packages: Packages,
        records: Records,
        watches: HookWatches,
        metrics: HookMetrics,
    ) -> None:
        self._packages = packages
        self._records = records
        self._watches = watches
        self._metrics = metrics

    @activity.defn(name="package.clean_up")
    async def clean_up(self, request: PackageRequest) -> None:
        """Drop watches, metrics of hooks, files, and at last the state Secret."""
        key = request.key
        await self._watches.close(key)
        self._metrics.forget(key)
        await self._packages.remove(key.package_id)
        await self._records.delete(key)
