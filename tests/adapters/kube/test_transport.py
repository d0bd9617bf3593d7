"""Whatever the connection raises is an API server that does not answer; other faults stay what they are."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from support.scripted_api import scripted_api
from windlass.domain.errors import Reason, TransientError


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("File descriptor 62 is used by transport <TCPTransport>"),
        RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
        EOFError("unexpected"),
        OSError(9, "Bad file descriptor"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_faults_of_the_event_loop_are_transient_and_keep_their_text(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    async with scripted_api() as api, api.client() as kube:
        monkeypatch.setattr(aiohttp.ClientSession, "request", fails)
        with pytest.raises(TransientError) as raised:
            await kube.list("v1", "ConfigMap")
    assert raised.value.reason is Reason.API_UNAVAILABLE
    assert str(error) in raised.value.message


async def test_a_document_that_nests_too_deeply_is_not_the_connections_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RecursionError("maximum recursion depth exceeded")

    async with scripted_api() as api, api.client() as kube:
        monkeypatch.setattr(aiohttp.ClientSession, "request", fails)
        with pytest.raises(RecursionError):
            await kube.list("v1", "ConfigMap")
