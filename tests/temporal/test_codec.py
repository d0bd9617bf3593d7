from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    NexusSerializationContext,
    SerializationContext,
    WorkflowSerializationContext,
)

from windlass.contracts.failures import FailureDetails
from windlass.domain.errors import PermanentError, Reason
from windlass.temporal.codec import REFUSED
from windlass.temporal.converter import RefusedPayloadError, data_converter
from windlass.temporal.failures import failure_of
from windlass.temporal.keyring import Keyring

KEYRING = Keyring.generate()
BILLING = WorkflowSerializationContext("default", "windlass/package/prod.billing")
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"hello"')


def converter(*, accept_plain: bool = False, refusals: list[None] | None = None) -> DataConverter:
    counted: list[None] = [] if refusals is None else refusals
    made = data_converter(KEYRING, accept_plain=accept_plain, on_refusal=lambda: counted.append(None))
    return made.with_context(BILLING)


def activity(workflow_id: str | None) -> ActivitySerializationContext:
    return ActivitySerializationContext(
        namespace="default",
        activity_id="1",
        activity_type="helm.upgrade_release",
        activity_task_queue="queue",
        workflow_id=workflow_id,
        workflow_type="PackageLifecycle",
        is_local=False,
    )


async def test_a_workflow_and_its_activities_read_each_other() -> None:
    at_home, at_work = converter(), data_converter(KEYRING).with_context(activity(BILLING.workflow_id))
    assert await at_work.decode(await at_home.encode([{"a": 1}])) == [{"a": 1}]
    assert await at_home.decode(await at_work.encode([{"a": 1}])) == [{"a": 1}]


@pytest.mark.parametrize(
    "context",
    [
        WorkflowSerializationContext("default", "windlass/package/test.billing"),
        WorkflowSerializationContext("elsewhere", BILLING.workflow_id),
        activity("windlass/package/test.billing"),
        activity(None),
        activity(""),
        NexusSerializationContext("endpoint", "service", "operation"),
    ],
)
async def test_what_was_copied_elsewhere_is_refused_with_a_typed_error(context: SerializationContext) -> None:
    sealed = await converter().encode(["action"])
    with pytest.raises(PermanentError) as refusal:
        await data_converter(KEYRING).with_context(context).decode(sealed)
    assert refusal.value.reason is Reason.STATE_REJECTED


async def test_what_is_not_encoded_is_refused_and_counted() -> None:
    refusals: list[None] = []
    with pytest.raises(PermanentError, match="not encoded"):
        await converter(refusals=refusals).decode([PLAIN])
    assert len(refusals) == 1


async def test_a_setting_lets_in_what_is_not_encoded() -> None:
    assert await converter(accept_plain=True).decode([PLAIN]) == ["hello"]


async def test_the_setting_lets_nothing_in_that_was_encoded_for_another_workflow() -> None:
    other = data_converter(KEYRING).with_context(WorkflowSerializationContext("default", "other"))
    with pytest.raises(PermanentError, match="for the workflow 'other'"):
        await converter(accept_plain=True).decode(await other.encode(["action"]))


@pytest.mark.parametrize("accept_plain", [False, True])
async def test_nobody_else_can_write_the_marker(accept_plain: bool) -> None:
    forged = Payload(metadata={"encoding": REFUSED.encode()}, data=b'{"message": "words of a stranger"}')
    with pytest.raises(PermanentError, match="not encoded"):
        await converter(accept_plain=accept_plain).decode([forged])


async def test_without_a_workflow_nothing_is_encoded() -> None:
    with pytest.raises(PermanentError, match="belongs to no workflow"):
        await data_converter(KEYRING).encode(["action"])


async def test_decoding_never_fails_a_workflow_task() -> None:
    """A worker decodes all that a task brings at once; an error there would be tried again for ever."""
    codec = converter().payload_codec
    assert codec is not None
    [sealed] = await converter().encode(["good"])
    good, bad = await codec.decode([sealed, PLAIN])
    assert good.data == b'"good"'
    with pytest.raises(RefusedPayloadError) as refusal:
        converter().payload_converter.from_payloads([bad])
    assert refusal.value.non_retryable
    assert refusal.value.type == Reason.STATE_REJECTED
    assert isinstance(refusal.value.details[0], FailureDetails)
    assert failure_of(refusal.value).reason is Reason.STATE_REJECTED
