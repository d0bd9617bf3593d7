"""Carrying out a decision: what is written, under which condition, and what it means when that is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windlass.domain.servicesets.models import Service, ServiceSet, StateManagementProviderConfig
from windlass.domain.servicesets.operation import ServiceSetOperation


class Refusal(StrEnum):
    """How the API server refuses a write because the world has moved on; values are its own reasons."""

    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    NOT_FOUND = "NotFound"


class AfterRefusal(StrEnum):
    """What a refused write means."""

    AWAIT_EVENT = "AwaitEvent"  # somebody else was first: the event of that write leads to a new decision
    FAIL = "Fail"  # not foreseen: the caller raises it


@dataclass(frozen=True, kw_only=True)
class Write:
    """One write to the API server.

    Attributes:
        operation: create (only if there is no such object) or update (only of the version that was looked at).
        manifest: the whole object as JSON data; that of an update holds ``metadata.resourceVersion``, by which the API
            server itself refuses it when the object has moved on.
        resource_version: the precondition of an update; empty for a create.
        note: one line for logs and Events.
    """

    operation: ServiceSetOperation
    manifest: dict[str, Any]
    resource_version: str
    note: str

    def after(self, refusal: Refusal) -> AfterRefusal:
        """Return what a refusal means (kcm.md section 2, Processor): a lost race is no failure."""
        lost = {
            ServiceSetOperation.CREATE: Refusal.ALREADY_EXISTS,
            ServiceSetOperation.UPDATE: Refusal.CONFLICT,
        }
        return AfterRefusal.AWAIT_EVENT if lost.get(self.operation) == refusal else AfterRefusal.FAIL


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The deciding half of the contract's Processor; it holds no client.

    Attributes:
        provider_spec: who delivers.
        services: what was wanted.
    """

    provider_spec: StateManagementProviderConfig
    services: tuple[Service, ...]

    def create_or_update_service_set(self, operation: ServiceSetOperation, service_set: ServiceSet) -> Write | None:
        """Return what to write; None for `ServiceSetOperation.NONE`.

        Status is not written: it is the provider's.

        Raises:
            ValueError: an update of an object that was not read, or a create of one that was.
        """
        if operation is ServiceSetOperation.NONE:
            return None
        version = service_set.metadata.resource_version
        if (operation is ServiceSetOperation.UPDATE) != bool(version):
            raise ValueError(f"cannot {operation} {service_set.title} with resourceVersion {version!r}")
        manifest = service_set.to_object()
        manifest.pop("status", None)
        stored = len(service_set.spec.services)
        return Write(
            operation=operation,
            manifest=manifest,
            resource_version=version,
            note=f"{operation} {service_set.title}: {stored} of {len(self.services)} services through "
            f"{self.provider_spec.name}",
        )
