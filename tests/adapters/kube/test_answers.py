"""How much of an answer is read, from servers that go on for ever."""

from __future__ import annotations

import gzip
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from support.scripted_api import ScriptedApi, scripted_api
from windlass.adapters.kube import kubeconfig
from windlass.adapters.kube.answers import AnswerLimits, Budget
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.following import watch
from windlass.adapters.kube.ratelimit import TokenBucket
from windlass.adapters.kube.transport import Transport
from windlass.domain.errors import PermanentError, TransientError
from windlass.ports.kube import ObjectRef

REF = ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name="it")
SMALL = 10_000


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as served:
        yield served


def client(api: ScriptedApi, limits: AnswerLimits) -> KubeClient:
    bucket = TokenBucket(100, 100, clock=time.monotonic)
    access = kubeconfig.read(api.kubeconfig)
    return KubeClient(Transport(access, bucket=bucket, user_agent="tests", clock=time.monotonic, limits=limits))


async def large(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"data": {"x": "x" * SMALL}})


async def packed(_request: web.Request) -> web.StreamResponse:
    text = gzip.compress(b'{"data": {"x": "' + b"x" * 100 * SMALL + b'"}}')
    return web.Response(body=text, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})


async def page(_request: web.Request) -> web.StreamResponse:
    item = {"metadata": {"name": "x" * 1000}}
    return web.json_response({"metadata": {"continue": "more", "resourceVersion": "1"}, "items": [item]})


@pytest.mark.parametrize("reply", [large, packed], ids=["large", "packed"])
async def test_an_answer_beyond_the_limit_is_not_read(api: ScriptedApi, reply: object) -> None:
    api.script = [reply]  # type: ignore[list-item]  # parameters of pytest have no type
    limits = AnswerLimits(answer=SMALL)
    async with client(api, limits) as kube:
        with pytest.raises(TransientError, match="too large"):
            await kube.get(REF)
    assert limits.budget.used == 0


async def test_pages_without_end_are_not_followed(api: ScriptedApi) -> None:
    api.script = [page] * 100
    limits = AnswerLimits(listed=SMALL)
    async with client(api, limits) as kube:
        with pytest.raises(TransientError, match="too large"):
            await kube.list("v1", "ConfigMap", namespace="shop")
    assert len(api.requests) < 12
    assert limits.budget.used == 0


async def test_clients_share_a_budget(api: ScriptedApi) -> None:
    api.script = [large]
    limits = AnswerLimits(budget=Budget(2 * SMALL, used=SMALL + 1))  # somebody else is reading
    async with client(api, limits) as kube:
        with pytest.raises(TransientError, match="too large"):
            await kube.get(REF)
    assert limits.budget.used == SMALL + 1


@pytest.mark.parametrize("document", [[], None, 3, "text"])
async def test_an_answer_of_another_shape_is_no_answer(api: ScriptedApi, document: object) -> None:
    async def shaped(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document)

    api.script = [shaped]
    async with client(api, AnswerLimits()) as kube:
        with pytest.raises(TransientError, match="not an object"):
            await kube.get(REF)


@pytest.mark.parametrize(
    "document", [{}, {"metadata": {}, "items": 1}, {"metadata": {}, "items": [None]}, {"items": []}]
)
async def test_a_list_of_another_shape_is_no_list(api: ScriptedApi, document: object) -> None:
    async def shaped(_request: web.Request) -> web.StreamResponse:
        return web.json_response(document)

    api.script = [shaped]
    async with client(api, AnswerLimits()) as kube:
        with pytest.raises(TransientError, match="not a list of objects"):
            await kube.list("v1", "ConfigMap", namespace="shop")


async def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LINE_BYTES", SMALL)

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000

    stream = watch.events(chunks(), watch.Call(verb="watch", resource="configmaps"), api_version="v1", kind="ConfigMap")
    with pytest.raises(TransientError, match="too large"):
        await anext(stream)


@pytest.mark.parametrize("name", ["theirs/status", "../../other/configmaps/theirs", "..", ".", "a%2fb"])
async def test_a_name_that_would_lead_to_another_object_is_refused(api: ScriptedApi, name: str) -> None:
    async with client(api, AnswerLimits()) as kube:
        for ref in (
            ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name=name),
            ObjectRef(api_version="v1", kind="ConfigMap", namespace=name, name="it"),
        ):
            with pytest.raises(PermanentError, match="is no name of an object"):
                await kube.get(ref)
    assert api.requests == []
