"""What goes in and out of the `RepositoryCatalog` workflow and its activities."""

from __future__ import annotations

from windlass.contracts.base import WireModel
from windlass.contracts.failures import FailureDetails
from windlass.contracts.lifecycle import Limits
from windlass.contracts.objects import WorkflowStatus

REPOSITORY_CATALOG = "RepositoryCatalog"
REPOSITORY_CHANGED = "repository_changed"


class RepositoryKey(WireModel):
    """Which PackageRepository, served by which installation."""

    installation: str
    name: str


class CatalogInput(WireModel):
    """Starts `RepositoryCatalog`; ``failures`` in a row are set by continue-as-new only."""

    key: RepositoryKey
    limits: Limits = Limits()
    failures: int = 0


class RepositoryChanged(WireModel):
    """Signal `repository_changed`: the object or a Secret of it is new. It says that, not what."""


class ScanRequest(WireModel):
    """Look at what the repository has, and write it into the object's status."""

    key: RepositoryKey
    workflow: WorkflowStatus


class ScanResult(WireModel):
    """What a scan found. ``exists`` is False once there is nothing to scan for us any more; ``interval`` in seconds."""

    exists: bool
    interval: float = 0.0
    count: int = 0
    digest: str = ""


class ScanFailedRequest(WireModel):
    """Write a failed scan into the object's status; times in seconds since the epoch."""

    key: RepositoryKey
    workflow: WorkflowStatus
    failure: FailureDetails
    attempt: int
    next_try: float


class CatalogView(WireModel):
    """Answer of the query `status`."""

    key: RepositoryKey
    result: ScanResult | None = None
    failures: int = 0
