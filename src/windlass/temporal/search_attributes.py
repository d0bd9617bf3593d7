"""What operators filter package workflows by in the Temporal UI and CLI. Not encrypted: names and states only."""

from __future__ import annotations

from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeIndexedValueType, SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from windlass.domain.errors import Actor, PermanentError, Reason

INSTALLATION: Final = SearchAttributeKey.for_keyword("WindlassInstallation")
PACKAGE: Final = SearchAttributeKey.for_keyword("WindlassPackage")
KIND: Final = SearchAttributeKey.for_keyword("WindlassKind")
PHASE: Final = SearchAttributeKey.for_keyword("WindlassPhase")
VERSION: Final = SearchAttributeKey.for_keyword("WindlassVersion")
READY: Final = SearchAttributeKey.for_bool("WindlassReady")

ALL: Final = (INSTALLATION, PACKAGE, KIND, PHASE, VERSION, READY)

_WORDS: Final = {
    SearchAttributeIndexedValueType.KEYWORD: ("Keyword", IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
    SearchAttributeIndexedValueType.BOOL: ("Bool", IndexedValueType.INDEXED_VALUE_TYPE_BOOL),
}


def as_flags() -> dict[str, str]:
    """Return name to type (``Keyword`` or ``Bool``), as ``--search-attribute NAME=TYPE`` of `temporal` wants them."""
    return {key.name: _WORDS[key.indexed_value_type][0] for key in ALL}


async def ensure(client: Client) -> list[str]:
    """Register what the namespace of ``client`` lacks; for servers that people bring along.

    A server may need some seconds until it accepts a new attribute.

    Returns:
        Names that were registered by this call.

    Raises:
        PermanentError: VALIDATION_FAILED, an attribute is there with another type; FORBIDDEN, the server does not let
            us register (Temporal Cloud does not), with the commands that do.
    """
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing: dict[str, IndexedValueType.ValueType] = {}
    for key in ALL:
        word, wanted = _WORDS[key.indexed_value_type]
        found = listed.custom_attributes.get(key.name)
        if found is None:
            missing[key.name] = wanted
        elif found != wanted:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"search attribute {key.name} of Temporal namespace {client.namespace!r} is not of type {word}",
                hint=f"remove it: `temporal operator search-attribute remove --name {key.name}`",
                actor=Actor.ADMIN,
            )
    if missing:
        await _register(client, missing)
    return list(missing)


async def _register(client: Client, missing: dict[str, IndexedValueType.ValueType]) -> None:
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return  # another process was quicker
        types = as_flags()
        flags = " ".join(f"--name {name} --type {types[name]}" for name in missing)
        raise PermanentError(
            Reason.FORBIDDEN,
            f"search attributes cannot be registered in Temporal namespace {client.namespace!r}: {error.status.name}",
            hint=f"have its administrator run `temporal operator search-attribute create {flags}`",
            actor=Actor.ADMIN,
        ) from error
