"""The last step of a removal before the finalizer: what belongs to the package besides its release."""

from __future__ import annotations

from temporalio import activity

from windlass.contracts.steps import PackageRequest
from windlass.domain.ids import hook_account_name
from windlass.ports.hooks import HookAccess
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
        access: HookAccess,
        metrics: HookMetrics,
    ) -> None:
        self._packages = packages
        self._records = records
        self._watches = watches
        self._access = access
        self._metrics = metrics

    @activity.defn(name="package.clean_up")
    async def clean_up(self, request: PackageRequest) -> None:
        """Drop watches, the hooks' account and metrics, files, and at last the state Secret."""
        key = request.key
        await self._watches.close(key)
        await self._access.remove(key.target_namespace, hook_account_name(key), cluster_wide=key.cluster_wide)
        self._metrics.forget(key)
        await self._packages.remove(key.package_id)
        await self._records.delete(key)
