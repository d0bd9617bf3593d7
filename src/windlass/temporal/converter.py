"""The one data converter: used by every client, worker and replayer of an installation."""

from __future__ import annotations

from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes

from windlass.temporal.codec import PayloadCodec
from windlass.temporal.keyring import Keyring


def data_converter(keyring: Keyring) -> DataConverter:
    """Return the converter: pydantic models as JSON, encrypted, with failure messages and stack traces encrypted too.

    What Temporal itself must read (ids, types, search attributes) never passes through a payload codec.
    """
    return DataConverter(
        payload_converter_class=PydanticPayloadConverter,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
        payload_codec=PayloadCodec(keyring),
    )
