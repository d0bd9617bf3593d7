"""`ports.EntityClient` over one JetStream key-value bucket whose values are JSON objects."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

import nats.js.errors
from nats.js.api import KeyValueConfig

from windlass.adapters.nats.connection import NatsConnection
from windlass.adapters.nats.failures import NO_STREAM, translated
from windlass.adapters.nats.reading import BucketReader, Message, header, operation_of, reading
from windlass.domain.entities import Operation, is_valid_key
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.text.documents import DocumentError, parse_json
from windlass.ports.entities import Changed, Document, Item, News, OnError, Picture

BACKOFF_FIRST: Final = 0.5
BACKOFF_FACTOR: Final = 1.5
BACKOFF_MAX: Final = 5.0
"""Seconds between two tries to follow a bucket: as design.md section 7 has it, with a short cap, for a try is cheap."""

_HEALTHY: Final = 5.0  # seconds of following after which an earlier failure counts no more
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_OPERATION: Final = "KV-Operation"
_ROLLUP: Final = "Nats-Rollup"


async def ensure_bucket(
    connection: NatsConnection, bucket: str, *, history: int = 1, ttl: float = 0.0, marker_ttl: float = 0.0
) -> None:
    """Create the bucket unless it exists; one that exists stays as it is.

    Args:
        connection: with the rights to do so.
        bucket: its name.
        history: values kept of each key, 64 at most.
        ttl: seconds after which a value expires; 0 for never.
        marker_ttl: seconds for which the server keeps a marker of what expired, so that readers are told; 0 for no
            markers: what has expired is noticed with the next resync only. A second at least, and at most ``ttl``.

    Raises:
        WindlassError: see `windlass.adapters.nats.failures`.
    """
    call = f"create bucket {bucket}"
    connection.require_up(call)
    context = connection.jetstream
    with translated(call):
        try:
            await context.key_value(bucket)
        except nats.js.errors.NotFoundError:
            await context.create_key_value(
                KeyValueConfig(
                    bucket=bucket, history=history, ttl=ttl or None, limit_marker_ttl=marker_ttl or None, direct=True
                )
            )


class BucketEntities:
    """The entities in one bucket.

    Args:
        connection: shared by as many clients as one likes.
        bucket: its name; it may come later.
    """

    def __init__(self, connection: NatsConnection, bucket: str) -> None:
        self._connection = connection
        self._context: Any = connection.jetstream
        self._bucket = bucket
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    @property
    def name(self) -> str:
        """For people."""
        return f"bucket {self._bucket}"

    async def get(self, key: str) -> Item | None:
        """See `ports.EntityClient`."""
        found = await self._newest(key)
        if found is None or found.operation is not Operation.PUT:
            return None
        document = _document(found.value)
        if document is None:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"{self._bucket}/{key} at revision {found.revision} is no JSON object",
                hint="put it again, as a JSON object",
            )
        return Item(key=key, version=str(found.revision), document=document)

    async def list(self, *, content: bool = True) -> Sequence[Item]:
        """See `ports.EntityClient`."""
        async with reading(self._connection, self._stream, self._prefix, content=content) as reader:
            return (await self._picture(reader, content=content)).items

    async def create(self, key: str, document: Document) -> str:
        """See `ports.EntityClient`."""
        found = await self._newest(key)
        if found is not None and found.operation is Operation.PUT:
            raise TransientError(
                Reason.API_CONFLICT, f"cannot create {self._bucket}/{key}: it exists", hint="update it instead"
            )
        return await self._write("create", key, _encoded(document), after=str(found.revision if found else 0))

    async def update(self, key: str, document: Document, *, version: str) -> str:
        """See `ports.EntityClient`."""
        return await self._write("update", key, _encoded(document), after=version)

    async def put(self, key: str, document: Document) -> str:
        """See `ports.EntityClient`."""
        return await self._write("put", key, _encoded(document))

    async def delete(self, key: str, *, version: str = "") -> bool:
        """See `ports.EntityClient`."""
        return await self._remove("delete", key, {_OPERATION: "DEL"}, version)

    async def purge(self, key: str, *, version: str = "") -> bool:
        """See `ports.EntityClient`."""
        return await self._remove("purge", key, {_OPERATION: "PURGE", _ROLLUP: "sub"}, version)

    async def follow(self, on_error: OnError, *, content: bool = True) -> AsyncGenerator[News]:
        """See `ports.Source`: every lost connection, consumer or message leads to a new `Picture`."""
        pause = BACKOFF_FIRST
        while True:
            began = time.monotonic()
            try:
                lost = self._connection.lost
                async with reading(self._connection, self._stream, self._prefix, content=content) as reader:
                    picture = await self._picture(reader, content=content)
                    newest = max((int(item.version) for item in picture.items), default=0)
                    yield picture
                    async with aclosing(_messages(reader, lost)) as messages:
                        async for message in messages:
                            if message.revision > newest:
                                newest = message.revision
                                yield Changed(item=_item(message, content=content), operation=message.operation)
            except WindlassError as error:
                if self._connection.closed:
                    raise PermanentError(
                        Reason.API_UNAVAILABLE,
                        f"cannot follow {self.name} any more: the connection to {self._connection.where} is closed",
                        hint="start the controller again",
                        actor=Actor.ADMIN,
                    ) from error
                on_error(error)
            if time.monotonic() - began > _HEALTHY:
                pause = BACKOFF_FIRST
            await asyncio.sleep(pause)
            pause = min(pause * BACKOFF_FACTOR, BACKOFF_MAX)

    async def _picture(self, reader: BucketReader, *, content: bool) -> Picture:
        """Read what there is. Later messages win; a key may come twice when it changes meanwhile."""
        items: dict[str, Item] = {}
        while reader.pending:
            message = await reader.next()
            if message is None:
                await reader.recount()
            elif message.operation is Operation.PUT:
                items[message.key] = _item(message, content=content)
            else:
                items.pop(message.key, None)
        return Picture(items=tuple(items.values()))

    async def _newest(self, key: str) -> Message | None:
        """Return the last message of a key, perhaps a marker: nats-py's `get` takes those of the server for values."""
        call = f"read {self._bucket}/{key}"
        self._check(call, key)
        with translated(call):
            try:
                found = await self._context.get_msg(self._stream, subject=f"{self._prefix}{key}", direct=False)
            except nats.js.errors.NotFoundError as error:
                if error.err_code == NO_STREAM:
                    raise
                return None
        return Message(
            key=key,
            operation=operation_of(header(found.headers)),
            revision=int(found.seq or 0),
            value=found.data or b"",
        )

    async def _write(self, verb: str, key: str, value: bytes, *, after: str = "") -> str:
        call = f"{verb} {self._bucket}/{key}"
        self._check(call, key)
        headers = {_EXPECTED: after} if after else None
        return str(await self._publish(call, key, value, headers))

    async def _remove(self, verb: str, key: str, headers: dict[str, str], version: str) -> bool:
        call = f"{verb} {self._bucket}/{key}"
        found = await self._newest(key)
        if found is None or found.operation is not Operation.PUT:
            return False
        wanted = {**headers, _EXPECTED: version} if version else headers
        await self._publish(call, key, b"", wanted)
        return True

    async def _publish(self, call: str, key: str, value: bytes, headers: dict[str, str] | None) -> int:
        subject = f"{self._prefix}{key}"
        try:
            with translated(call):
                return int((await self._context.publish(subject, value, headers=headers)).seq)
        except TransientError as error:
            if error.reason is Reason.API_UNAVAILABLE and self._connection.denied(subject):
                raise PermanentError(
                    Reason.FORBIDDEN,
                    f"cannot {call}: NATS refuses this user",
                    hint="grant the rights",
                    actor=Actor.ADMIN,
                ) from error
            raise

    def _check(self, call: str, key: str) -> None:
        if not is_valid_key(key):
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"cannot {call}: no legal key",
                hint="letters, digits and -/_=. make a key; it neither begins nor ends with a dot",
            )
        self._connection.require_up(call)


async def _messages(reader: BucketReader, lost: asyncio.Event) -> AsyncGenerator[Message]:
    """Yield what comes until the connection is lost: what comes after that may lack what came before."""
    losing = asyncio.create_task(lost.wait())
    try:
        while True:
            coming = asyncio.create_task(reader.next())
            try:
                await asyncio.wait([coming, losing], return_when=asyncio.FIRST_COMPLETED)
                if losing.done():
                    raise TransientError(
                        Reason.API_UNAVAILABLE, "changes may have been missed: the connection was lost"
                    )
                message = coming.result()
            finally:
                coming.cancel()
                await asyncio.wait([coming])
            if message is not None:
                yield message
    finally:
        losing.cancel()
        await asyncio.wait([losing])


def _item(message: Message, *, content: bool) -> Item:
    document = _document(message.value) if content and message.operation is Operation.PUT else None
    return Item(key=message.key, version=str(message.revision), document=document)


def _document(value: bytes) -> Document | None:
    try:
        parsed: Any = parse_json(value)
    except DocumentError:
        return None
    return cast("Document", parsed) if isinstance(parsed, dict) else None


def _encoded(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
