"""Somebody who may write to Temporal's namespace and encodes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, override

from temporalio import converter
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from windlass.temporal.codec import PayloadCodec
from windlass.temporal.converter import data_converter
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import Sealer


@dataclass(frozen=True)
class AsItIs(converter.PayloadCodec, converter.WithSerializationContext):
    """Sends what it is given as it is; reads answers with the key, so that a test can look at them."""

    reads: PayloadCodec

    @override
    def with_context(self, context: converter.SerializationContext) -> Self:
        return replace(self, reads=self.reads.with_context(context))

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return list(payloads)

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return await self.reads.decode(payloads)


async def stranger_at(address: str, keyring: Keyring) -> Client:
    """Connect to Temporal at ``address`` (host:port); ``keyring`` is for reading answers only."""
    codec = AsItIs(PayloadCodec(Sealer(keyring)))
    return await Client.connect(address, data_converter=replace(data_converter(keyring), payload_codec=codec))
