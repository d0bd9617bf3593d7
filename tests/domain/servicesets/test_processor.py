"""What is written, and what a refused write means (kcm.md section 2: Processor)."""

from __future__ import annotations

import pytest
from domain.servicesets.words import reported, service_set, stored, wanted

from windlass.servicesets import (
    AfterRefusal,
    Processor,
    Refusal,
    ServiceSet,
    ServiceSetOperation,
    StateManagementProviderConfig,
)

PROCESSOR = Processor(provider_spec=StateManagementProviderConfig(name="flux"), services=(wanted("a", "1"),) * 3)
STORED = service_set([stored("a", "1")], [reported("a", "Deployed", "1")])
NEW = ServiceSet.new("prod", "edge")


def test_a_create_wants_no_object() -> None:
    write = PROCESSOR.create_or_update_service_set(ServiceSetOperation.CREATE, NEW)
    assert write is not None
    assert (write.operation, write.resource_version) == (ServiceSetOperation.CREATE, "")
    assert write.manifest == NEW.to_object()
    assert write.note == "create ServiceSet prod/edge: 0 of 3 services through flux"


def test_an_update_wants_the_object_that_was_read() -> None:
    write = PROCESSOR.create_or_update_service_set(ServiceSetOperation.UPDATE, STORED)
    assert write is not None
    assert (write.operation, write.resource_version) == (ServiceSetOperation.UPDATE, "7")
    assert write.manifest["metadata"]["resourceVersion"] == "7"
    assert "status" not in write.manifest
    assert write.note == "update ServiceSet prod/edge: 1 of 3 services through flux"


def test_nothing_is_nothing() -> None:
    assert PROCESSOR.create_or_update_service_set(ServiceSetOperation.NONE, STORED) is None


@pytest.mark.parametrize(
    ("operation", "item"), [(ServiceSetOperation.CREATE, STORED), (ServiceSetOperation.UPDATE, NEW)]
)
def test_operations_fit_what_was_read(operation: ServiceSetOperation, item: ServiceSet) -> None:
    with pytest.raises(ValueError, match=f"cannot {operation} ServiceSet prod/edge with resourceVersion"):
        PROCESSOR.create_or_update_service_set(operation, item)


@pytest.mark.parametrize(
    ("operation", "item", "refusal", "after"),
    [
        (ServiceSetOperation.CREATE, NEW, Refusal.ALREADY_EXISTS, AfterRefusal.AWAIT_EVENT),
        (ServiceSetOperation.CREATE, NEW, Refusal.CONFLICT, AfterRefusal.FAIL),
        (ServiceSetOperation.CREATE, NEW, Refusal.NOT_FOUND, AfterRefusal.FAIL),
        (ServiceSetOperation.UPDATE, STORED, Refusal.CONFLICT, AfterRefusal.AWAIT_EVENT),
        (ServiceSetOperation.UPDATE, STORED, Refusal.ALREADY_EXISTS, AfterRefusal.FAIL),
        (ServiceSetOperation.UPDATE, STORED, Refusal.NOT_FOUND, AfterRefusal.FAIL),
    ],
)
def test_a_lost_race_is_no_failure(
    operation: ServiceSetOperation, item: ServiceSet, refusal: Refusal, after: AfterRefusal
) -> None:
    write = PROCESSOR.create_or_update_service_set(operation, item)
    assert write is not None
    assert write.after(refusal) is after
