"""Reads a watch stream: one JSON object per line of bounded length, with the API server's own errors among them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Final, cast

from windlass.adapters.kube import failures
from windlass.adapters.kube.answers import EndlessAnswerError
from windlass.adapters.kube.failures import Call
from windlass.domain.text.documents import DocumentError, parse_answer
from windlass.ports.kube import Object, WatchEvent, WatchExpiredError

LINE_BYTES: Final = 16 << 20
"""The longest line that is read. An object has at most 3 MiB in an API server of Kubernetes' own."""

_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


async def lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Split a byte stream at line ends; what follows the last one (a cut connection) is dropped.

    Raises:
        EndlessAnswerError: a line is longer than `LINE_BYTES`.
    """
    rest: list[bytes] = []  # pieces of one long line are joined once
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if not others and sum(map(len, rest)) > LINE_BYTES:
            raise EndlessAnswerError
        for piece in others:
            if line := b"".join(rest):
                yield line
            rest = [piece]


async def events(
    chunks: AsyncIterable[bytes], call: Call, *, api_version: str, kind: str
) -> AsyncGenerator[WatchEvent]:
    """Parse the stream; objects get their own apiVersion and kind also where only metadata was asked for.

    Raises:
        WatchExpiredError: the server says 410 Gone inside the stream.
        WindlassError: any other error inside the stream.
    """
    try:
        async for line in lines(chunks):
            try:
                parsed = cast("dict[str, Any]", parse_answer(line))
            except DocumentError:
                raise failures.garbled(call) from None
            what, obj = parsed.get("type"), cast("Object", parsed.get("object") or {})
            if what in _TYPES:
                obj["apiVersion"], obj["kind"] = api_version, kind
                yield WatchEvent(type=what, object=obj)
            elif what == "ERROR":
                code = int(obj.get("code") or 500)
                if code == 410:
                    raise WatchExpiredError(f"{call}: the resourceVersion is too old")
                raise failures.rejected(call, code, json.dumps(obj).encode())
    except EndlessAnswerError:
        raise failures.endless(call) from None
