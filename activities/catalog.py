"""Scans of repositories, and the status of PackageRepository objects."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from temporalio import activity

from windlass.activities.heartbeat import heartbeating
from windlass.activities.inputs import read_repository
from windlass.activities.repositories import seen_of, with_access
from windlass.contracts.catalog import RepositoryKey, ScanFailedRequest, ScanRequest, ScanResult
from windlass.contracts.objects import Condition, FailureStatus, WorkflowStatus
from windlass.contracts.repositories import (
    LISTED,
    ListedPackage,
    PackageRepository,
    PackageRepositoryStatus,
    to_status,
)
from windlass.domain.ids import API_VERSION, Kind
from windlass.domain.packages.wanted import newest
from windlass.ports.clock import Clock
from windlass.ports.kube import Kube
from windlass.ports.packages import Offer, Packages

FIELD_MANAGER: Final = "windlass"
READY: Final = "Ready"
MESSAGE_CAP: Final = 2000


class CatalogActivities:
    """``ui`` is the address of the Temporal UI's page for the namespace, empty if there is none."""

    def __init__(self, *, kube: Kube, packages: Packages, clock: Clock, digest_key: bytes, ui: str) -> None:
        self._kube = kube
        self._packages = packages
        self._clock = clock
        self._digest_key = digest_key
        self._ui = ui

    @activity.defn(name="repository.scan")
    async def scan(self, request: ScanRequest) -> ScanResult:
        """Look at what the repository has, and write it down."""
        async with heartbeating() as beat:
            found = await self._read(request.key)
            if found is None:
                return ScanResult(exists=False)
            seen = await seen_of(self._kube.get, found, self._digest_key)
            repository = await with_access(self._kube.get, found)
            beat.details = f"scanning {request.key.name}"
            offers = await self._packages.scan(repository, await self._used(found))
            digest = _digest(offers)
            status = PackageRepositoryStatus(
                observed_generation=found.metadata.generation,
                conditions=[self._ready(found, "True", "Scanned", _told(offers))],
                last_scan=self._now(),
                count=len(offers),
                digest=digest,
                packages=[_listed(offer) for offer in offers[:LISTED]],
                seen=seen,
                workflow=self._linked(request.workflow),
            )
            await self._write(found, status)
        return ScanResult(exists=True, interval=found.spec.scan_interval, count=len(offers), digest=digest)

    @activity.defn(name="repository.report_failure")
    async def report_failure(self, request: ScanFailedRequest) -> None:
        """Write down that a scan failed; what the last good one found stays."""
        found = await self._read(request.key)
        if found is None:
            return
        failure = request.failure
        before = found.status or PackageRepositoryStatus()
        status = before.model_copy(
            update={
                "observed_generation": found.metadata.generation,
                "conditions": [self._ready(found, "False", failure.reason.value, failure.message[:MESSAGE_CAP])],
                "failure": FailureStatus(
                    step="Scan",
                    reason=failure.reason.value,
                    message=failure.message,
                    hint=failure.hint or None,
                    actor=failure.actor,
                    attempt=request.attempt,
                    next_try=datetime.fromtimestamp(int(request.next_try), UTC),
                ),
                "seen": await seen_of(self._kube.get, found, self._digest_key),
                "workflow": self._linked(request.workflow),
            }
        )
        await self._write(found, status)

    async def _read(self, key: RepositoryKey) -> PackageRepository | None:
        """Return the object if it is there and this installation serves it."""
        found = await read_repository(self._kube.get, key.name)
        gone = found is None or found.metadata.deletion_timestamp or found.installation != key.installation
        return None if gone else found

    async def _used(self, repository: PackageRepository) -> list[str]:
        """Return what objects use of a repository that may not be able to list its packages."""
        if repository.spec.kind != "oci":
            return []
        names: set[str] = set()
        for kind in Kind:
            if await self._kube.resource(API_VERSION, kind.value) is None:
                continue
            for item in (await self._kube.list(API_VERSION, kind.value)).items:
                package = item["spec"]["package"]
                if package["repository"] == repository.metadata.name:
                    names.add(package["name"])
        return sorted(names)

    async def _write(self, repository: PackageRepository, status: PackageRepositoryStatus) -> None:
        # The resourceVersion pins the very object that was read; a conflict is tried again.
        metadata = {"name": repository.metadata.name, "resourceVersion": repository.metadata.resource_version}
        body = {"apiVersion": API_VERSION, "kind": "PackageRepository", "metadata": metadata}
        await self._kube.apply({**body, "status": to_status(status)}, field_manager=FIELD_MANAGER, subresource="status")

    def _ready(self, repository: PackageRepository, status: str, reason: str, message: str) -> Condition:
        known = (repository.status.conditions or []) if repository.status else []
        before = next((one for one in known if one.type == READY), None)
        since = before.last_transition_time if before is not None and before.status == status else self._now()
        return Condition(
            type=READY,
            status="True" if status == "True" else "False",
            observed_generation=repository.metadata.generation,
            last_transition_time=since,
            reason=reason,
            message=message,
        )

    def _linked(self, workflow: WorkflowStatus) -> WorkflowStatus:
        if not self._ui:
            return workflow
        link = f"{self._ui}/workflows/{quote(workflow.id, safe='')}/{workflow.run_id or ''}"
        return workflow.model_copy(update={"link": link})

    def _now(self) -> datetime:
        return datetime.fromtimestamp(int(self._clock.now()), UTC)


def _listed(offer: Offer) -> ListedPackage:
    return ListedPackage(
        name=offer.name, version=newest(offer.versions), versions=len(offer.versions), digest=offer.digest
    )


def _digest(offers: Sequence[Offer]) -> str:
    text = "\n".join(f"{offer.name} {offer.digest}" for offer in offers)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _told(offers: Sequence[Offer]) -> str:
    versions = sum(len(offer.versions) for offer in offers)
    return f"{_counted(len(offers), 'package')}, {_counted(versions, 'version')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
