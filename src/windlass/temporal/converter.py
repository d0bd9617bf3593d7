"""The one data converter: used by every client, worker and replayer of an installation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self, override

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    EncodingPayloadConverter,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from windlass.contracts.failures import FailureDetails
from windlass.temporal.codec import REFUSED, PayloadCodec, not_counted
from windlass.temporal.failures import to_application_error, to_error
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import Sealer


def data_converter(
    keyring: Keyring, *, accept_plain: bool = False, on_refusal: Callable[[], None] = not_counted
) -> DataConverter:
    """Return the converter: pydantic models as JSON, encrypted, with failure messages and stack traces encrypted too.

    What Temporal itself must read (ids, types, search attributes) never passes through a payload codec.

    Args:
        keyring: keys of the payload codec.
        accept_plain: as `PayloadCodec` has it.
        on_refusal: called for each payload that is not accepted.
    """
    return _DataConverter(
        payload_converter_class=PayloadConverter,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
        payload_codec=PayloadCodec(Sealer(keyring), accept_plain=accept_plain, on_refusal=on_refusal),
    )


def converter_for(client: Client, workflow_id: str) -> DataConverter:
    """Return the client's converter for what belongs to one workflow, as who reads raw events needs it."""
    return client.data_converter.with_context(WorkflowSerializationContext(client.namespace, workflow_id))


class PayloadConverter(PydanticPayloadConverter):
    """Pydantic models and plain values as JSON; raises for what the codec did not accept."""

    def __init__(self) -> None:
        super().__init__()
        self._set_converters(_RefusedPayloadConverter(), *self.converters.values())


class _RefusedPayloadConverter(EncodingPayloadConverter):
    """Raises what the codec's marker says, in the form that reaches the sender and fails a run instead of a task.

    The SDK drops a signal for any error, refuses an update or query, and fails the run for an `ApplicationError` in the
    arguments of a start or the result of an activity. Any other error there would be tried again for ever.
    """

    @property
    @override
    def encoding(self) -> str:
        return REFUSED

    @override
    def to_payload(self, value: Any) -> Payload | None:
        return None

    @override
    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        raise RefusedPayloadError(FailureDetails.model_validate_json(payload.data))


class RefusedPayloadError(ApplicationError):
    """A payload was not accepted; STATE_REJECTED in Temporal's form."""

    def __init__(self, refusal: FailureDetails) -> None:
        self.refusal = to_error(refusal)
        form = to_application_error(self.refusal)
        super().__init__(form.message, *form.details, type=form.type, non_retryable=form.non_retryable)


class _DataConverter(DataConverter):
    """Raises errors of ours where clients and activities read values; workflows do not come by here."""

    @override
    def with_context(self, context: SerializationContext) -> Self:
        # Only the codec looks at the context. The SDK's own method makes both converters anew (50 instead of 3 us),
        # several times for each workflow task and activity.
        bound = copy.copy(self)
        if isinstance(self.payload_codec, WithSerializationContext):
            object.__setattr__(bound, "payload_codec", self.payload_codec.with_context(context))
        return bound

    @override
    async def decode(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        try:
            return await super().decode(payloads, type_hints)
        except RefusedPayloadError as error:
            raise error.refusal from None

    @override
    async def decode_failure(self, failure: Failure) -> BaseException:
        try:
            return await super().decode_failure(failure)
        except RefusedPayloadError as error:
            raise error.refusal from None
