"""Reads a bucket's stream in order: what there is, then what comes, or an error that says that something was missed.

A consumer of our own, pulled, instead of `KeyValue.watch` of nats-py (docs/operators.md names the traps of that one):
the server sends no more than was asked for, so a slow reader holds nothing up and loses nothing; a lost consumer, a
silent server and a hole in the sequence are errors at once; there is no idle limit while somebody reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from windlass.adapters.nats.connection import NatsConnection
from windlass.adapters.nats.failures import translated
from windlass.domain.entities import Operation
from windlass.domain.errors import Reason, TransientError

BATCH: Final = 256
"""Messages asked for at a time."""

HEARTBEAT: Final = 2.0
"""Seconds between two signs of life of the server while nothing happens; a server that misses two is lost."""

_EXPIRES: Final = 60.0  # seconds for which one request stands
_INACTIVE: Final = 30.0  # seconds after which the server drops the consumer of a reader that is gone
_NANOSECONDS: Final = 1_000_000_000

_OPERATION: Final = "KV-Operation"
_MARKER: Final = "Nats-Marker-Reason"  # set by the server (2.11) where a limit or a time to live removed the last value
_DELETED: Final = frozenset({"DEL", "Remove"})


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a bucket's stream.

    Attributes:
        key: of the entity.
        operation: PUT, DELETE or PURGE.
        revision: sequence in the stream.
        value: empty if it is none of PUT, or was asked for without content.
    """

    key: str
    operation: Operation
    revision: int
    value: bytes


def operation_of(headers: dict[str, str] | None) -> Operation:
    """Return what a message of a bucket means.

    A value has neither header. A client's delete or purge has one; markers of the server have the other: MaxAge and
    Purge are PURGE, Remove is DELETE, and whatever else it may be some day, the value is gone.
    """
    word = (headers or {}).get(_OPERATION) or (headers or {}).get(_MARKER)
    if not word:
        return Operation.PUT
    return Operation.DELETE if word in _DELETED else Operation.PURGE


class BucketReader:
    """The messages of one bucket from the newest of every key on; made by `reading`."""

    def __init__(self, inbox: Subscription, prefix: str, pending: int, asking: _Asking) -> None:
        self._inbox = inbox
        self._prefix = prefix
        self._asking = asking
        self._left = 0
        self._sequence = 0
        self.pending = pending
        """Messages that come before everything there was has been read; known anew after each message."""

    async def next(self) -> Message | None:
        """Return the next message; None is a sign of life of a server that has none.

        Raises:
            TransientError: API_UNAVAILABLE, something may have been missed: read again from the beginning.
        """
        while True:
            if self._left == 0:
                await self._asking.request()
                self._left = BATCH
            try:
                message = await self._inbox.next_msg(timeout=2 * HEARTBEAT + 1)
            except nats.errors.Error as error:
                why = "the server is silent" if isinstance(error, nats.errors.TimeoutError) else str(error)
                raise _missed(why) from None
            status = (message.headers or {}).get("Status", "")
            if not status:
                self._left -= 1
                return self._taken(message)
            if status == "100":
                return None
            # 404, 408: the request has expired. Anything else ends the consumer.
            if status not in {"404", "408"}:
                raise _missed(f"the server says {status} {(message.headers or {}).get('Description', '')}".rstrip())
            self._left = 0

    async def recount(self) -> None:
        """Ask how much is `pending`: what was still to come may have been removed meanwhile."""
        self.pending = await self._asking.pending()

    def _taken(self, message: Msg) -> Message:
        metadata = message.metadata
        self._sequence += 1
        if metadata.sequence.consumer != self._sequence:
            raise _missed(f"message {self._sequence} did not come")
        self.pending = metadata.num_pending
        return Message(
            key=message.subject.removeprefix(self._prefix),
            operation=operation_of(message.headers),
            revision=metadata.sequence.stream,
            value=message.data,
        )


class _Asking:
    """The requests of one reader."""

    def __init__(self, connection: NatsConnection, call: str, stream: str, consumer: str, inbox: str) -> None:
        self._connection = connection
        self._call = call
        self._stream, self._consumer, self._inbox = stream, consumer, inbox
        self._body = json.dumps(
            {
                "batch": BATCH,
                "expires": int(_EXPIRES * _NANOSECONDS),
                "idle_heartbeat": int(HEARTBEAT * _NANOSECONDS),
            }
        ).encode()

    async def request(self) -> None:
        self._connection.require_up(self._call)
        with translated(self._call):
            await self._connection.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}", self._body, self._inbox
            )

    async def pending(self) -> int:
        self._connection.require_up(self._call)
        with translated(self._call):
            info: Any = await self._connection.jetstream.consumer_info(self._stream, self._consumer)
        return info.num_pending or 0


@asynccontextmanager
async def reading(
    connection: NatsConnection, stream: str, prefix: str, *, content: bool
) -> AsyncGenerator[BucketReader]:
    """Open a reader of the subjects below ``prefix``; the server forgets it after the body.

    Raises:
        TransientError: API_UNAVAILABLE, the server does not answer; API_REJECTED, the bucket does not exist.
        PermanentError: FORBIDDEN, this user may not read it.
    """
    call = f"read bucket {prefix.removeprefix('$KV.').rstrip('.')}"
    connection.require_up(call)
    client: Any = connection.client
    context = connection.jetstream
    inbox = client.new_inbox()
    with translated(call):
        subscription: Subscription = await client.subscribe(inbox, pending_msgs_limit=0, pending_bytes_limit=0)
    name = ""
    try:
        with translated(call):
            made = await context.add_consumer(
                stream,
                config=ConsumerConfig(
                    name=inbox.rpartition(".")[2],
                    filter_subject=f"{prefix}>",
                    deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
                    ack_policy=AckPolicy.NONE,
                    headers_only=not content,
                    inactive_threshold=_INACTIVE,
                    max_deliver=1,
                    mem_storage=True,
                    num_replicas=1,
                ),
            )
        name = str(made.name)
        asking = _Asking(connection, call, stream, name, inbox)
        yield BucketReader(subscription, prefix, made.num_pending or 0, asking)
    finally:
        # What is left behind ends by itself, and the connection may be what was lost.
        with suppress(nats.errors.Error, asyncio.TimeoutError):
            await subscription.unsubscribe()
            if name and connection.up:
                await context.delete_consumer(stream, name)


def _missed(why: str) -> TransientError:
    return TransientError(Reason.API_UNAVAILABLE, f"changes may have been missed: {why}")


def header(headers: Any) -> dict[str, str]:
    """Return the headers of a stored message as a plain mapping."""
    return cast("dict[str, str]", dict(headers or {}))
