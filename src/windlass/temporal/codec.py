"""The payload codec: everything that Temporal stores is sealed for its workflow; nothing else is accepted.

`windlass.temporal.sealing` says how. The SDK tells the codec whose payloads it handles (the serialization context).

A payload that is not accepted does not make `PayloadCodec.decode` fail: an error there fails the workflow task, which
the server repeats for ever, so one signal of a stranger would stall a lifecycle. Such a payload is replaced by a marker
instead, from which `windlass.temporal.converter` raises a typed error where the SDK can handle it: a signal is dropped,
an update or a query is refused, a run that was started with it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, override

import structlog
from temporalio import converter
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from windlass.contracts.failures import FailureDetails
from windlass.domain.errors import Actor, Category, PermanentError, Reason
from windlass.temporal.sealing import Binding, Sealer, is_sealed, rejected

REFUSED: Final = "windlass/refused"
"""Encoding of the marker. It exists inside a process only: one that arrives from Temporal is refused itself."""

_log = structlog.stdlib.get_logger(__name__)


def not_counted() -> None:
    """Count nothing."""


@dataclass(frozen=True)
class PayloadCodec(converter.PayloadCodec, WithSerializationContext):
    """Seals every payload for the workflow that it belongs to, and opens those that were sealed for it.

    Attributes:
        sealer: seals and opens.
        accept_plain: take payloads that are not encoded as they are: whoever may write to Temporal's namespace can then
            tell lifecycles what to do.
        on_refusal: called for each payload that is not accepted, also when a history is replayed.
        binding: whose payloads they are; None until the SDK has said so.
    """

    sealer: Sealer
    accept_plain: bool = False
    on_refusal: Callable[[], None] = not_counted
    binding: Binding | None = None

    @override
    def with_context(self, context: SerializationContext) -> Self:
        """Return this codec, bound to the workflow that ``context`` names; bound to nothing if it names none."""
        return replace(self, binding=_binding(context))

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal each payload.

        Raises:
            PermanentError: VALIDATION_FAILED, the payloads belong to no workflow, or one has too many bytes.
        """
        binding = self.binding
        if binding is None:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                "a payload that belongs to no workflow cannot be encoded",
                hint="use the data converter `with_context` of the workflow",
                actor=Actor.ADMIN,
            )
        return [self.sealer.seal(payload, binding) for payload in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open each payload; return a marker in place of one that is not accepted."""
        return [self._decoded(payload) for payload in payloads]

    def _decoded(self, payload: Payload) -> Payload:
        try:
            if self.accept_plain and not is_sealed(payload) and payload.metadata.get("encoding") != REFUSED.encode():
                return payload
            if self.binding is None:
                raise rejected("a payload belongs to no workflow")
            return self.sealer.open(payload, self.binding)
        except PermanentError as error:
            self.on_refusal()
            workflow_id = self.binding.workflow_id if self.binding else ""
            _log.warning("payload refused", workflow_id=workflow_id, error=error.message)
            return _marker(error)


def _binding(context: SerializationContext) -> Binding | None:
    # A standalone activity has no workflow; the bridge then gives an empty id.
    if isinstance(context, (WorkflowSerializationContext, ActivitySerializationContext)) and context.workflow_id:
        return Binding(context.namespace, context.workflow_id)
    return None


def _marker(error: PermanentError) -> Payload:
    details = FailureDetails(
        category=Category.PERMANENT, reason=error.reason, message=error.message, hint=error.hint, actor=error.actor
    )
    return Payload(metadata={"encoding": REFUSED.encode()}, data=details.model_dump_json().encode())
