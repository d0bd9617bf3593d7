"""What the client makes of answers that a healthy API server does not give on demand."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web

from support.scripted_api import ScriptedApi, answer, stream
from support.waiting import SOON
from windlass.adapters.kube.failures import UNDECLARED
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.adapters.kube.transport import CONCURRENT
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.ports.kube import Object, ObjectRef, WatchEvent, WatchExpiredError

REF = ObjectRef(api_version="v1", kind="ConfigMap", namespace="shop", name="it")
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "it"}}


def page(*names: str, version: str = "7", more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version} | ({"continue": more} if more else {})
    return {"kind": "ConfigMapList", "metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}


def line(kind: str, name: str = "it", version: str = "8", **fields: Any) -> bytes:
    obj = {"metadata": {"name": name, "resourceVersion": version}, **fields}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def names(items: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def test_a_list_whose_snapshot_expires_between_pages_begins_again(api: ScriptedApi) -> None:
    api.script = [
        answer(page("a", more="next")),
        answer({"kind": "Status", "reason": "Expired", "code": 410}, 410),
        answer(page("b", "c", version="9")),
    ]
    async with api.client() as kube:
        listed = await kube.list("v1", "ConfigMap")
    assert names(listed.items) == ["b", "c"]
    assert listed.resource_version == "9"
    assert [(r.query.get("limit"), r.query.get("continue")) for r in api.requests] == [
        ("500", None),
        ("500", "next"),
        (None, None),
    ]


async def test_retry_after_is_obeyed_and_then_given_up(api: ScriptedApi) -> None:
    busy = answer({"kind": "Status", "reason": "TooManyRequests", "message": "slow down"}, 429, Retry_After="0")
    api.script = [busy, busy, answer({"metadata": {"name": "it"}})]
    async with api.client() as kube:
        assert await kube.get(REF) == {"metadata": {"name": "it"}}
        api.script = [busy] * 9
        with pytest.raises(TransientError, match="slow down") as caught:
            await kube.get(REF)
    assert caught.value.reason is Reason.API_UNAVAILABLE
    assert len(api.requests) == 3 + 4


async def test_a_watch_obeys_retry_after_as_well(api: ScriptedApi) -> None:
    message = "storage is (re)initializing"
    begins = answer({"kind": "Status", "reason": "TooManyRequests", "message": message}, 429, Retry_After="0")
    api.script = [begins, begins, stream(line("ADDED"))]
    async with api.client() as kube:
        assert (await anext(kube.watch("v1", "ConfigMap", resource_version="7"))).type == "ADDED"
        api.script = [begins] * 9
        with pytest.raises(TransientError, match="initializing"):
            await anext(kube.watch("v1", "ConfigMap", resource_version="7"))
    assert len(api.requests) == 3 + 4


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (400, PermanentError, Reason.API_REJECTED),
        (401, PermanentError, Reason.FORBIDDEN),
        (403, PermanentError, Reason.FORBIDDEN),
        (409, TransientError, Reason.API_CONFLICT),
        (413, PermanentError, Reason.API_REJECTED),
        (422, PermanentError, Reason.API_REJECTED),
        (429, TransientError, Reason.API_UNAVAILABLE),
        (500, TransientError, Reason.API_UNAVAILABLE),
        (503, TransientError, Reason.API_UNAVAILABLE),
    ],
)
async def test_statuses_map_to_the_taxonomy(
    api: ScriptedApi, status: int, kind: type[WindlassError], reason: Reason
) -> None:
    api.script = [answer({"kind": "Status", "message": "so it is"}, status)]
    async with api.client() as kube:
        with pytest.raises(kind) as caught:
            await kube.get(REF)
    assert caught.value.reason is reason
    assert "get configmaps/it in shop" in caught.value.message
    if isinstance(caught.value, PermanentError) and reason is Reason.FORBIDDEN:
        assert caught.value.actor is Actor.ADMIN


async def test_a_field_that_the_definition_does_not_know_is_told_with_what_to_do(api: ScriptedApi) -> None:
    message = "failed to create typed patch object (shop/it; v1, Kind=ConfigMap): .status.new: " + UNDECLARED
    api.script = [answer({"kind": "Status", "message": message, "code": 500}, 500)]
    async with api.client() as kube:
        with pytest.raises(PermanentError, match=r"\.status\.new") as caught:
            await kube.get(REF)
    assert (caught.value.reason, caught.value.actor) == (Reason.API_REJECTED, Actor.ADMIN)
    assert "deploy/crds" in caught.value.hint


async def test_forbidden_because_the_namespace_goes_is_no_matter_of_rights(api: ScriptedApi) -> None:
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    api.script = [answer({"kind": "Status", "reason": "Forbidden", "details": {"causes": causes}}, 403)]
    async with api.client() as kube:
        with pytest.raises(TransientError, match="the namespace is being deleted"):
            await kube.create(SECRET)


async def test_what_a_server_says_of_a_secret_stays_out_of_the_error(api: ScriptedApi) -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "data.password", "message": 'Invalid value: "hunter2"'}]
    body = {"kind": "Status", "reason": "Invalid", "message": "hunter2 is bad", "details": {"causes": causes}}
    api.script = [answer(body, 422), answer({"kind": "Status", "message": "hunter2"}, 400)]
    async with api.client() as kube:
        for _ in range(2):
            with pytest.raises(PermanentError) as caught:
                await kube.create(SECRET | {"stringData": {"password": "hunter2"}})
            assert "hunter2" not in str(caught.value) + repr(caught.value)
            if "Invalid" in caught.value.message:
                assert "data.password" in caught.value.message


async def test_an_answer_that_is_no_status_is_an_error_too(api: ScriptedApi) -> None:
    async def html(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<h1>Bad gateway</h1>", status=502)

    api.script = [html]
    async with api.client() as kube:
        with pytest.raises(TransientError, match="proxy"):
            await kube.get(REF)


async def test_answers_that_are_not_json(api: ScriptedApi) -> None:
    async def html(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<h1>canary</h1>")

    api.script = [html, stream(b"canary\n")]
    async with api.client() as kube:
        for attempt in (kube.get(REF), anext(kube.watch("v1", "ConfigMap", resource_version="7"))):
            with pytest.raises(TransientError, match="not JSON") as caught:
                await attempt
            assert "canary" not in str(caught.value)


async def test_nobody_answers(unused_tcp_port: int) -> None:
    api = ScriptedApi(url=f"http://127.0.0.1:{unused_tcp_port}")
    async with api.client() as kube:
        with pytest.raises(TransientError, match="does not answer") as caught:
            await kube.get(REF)
    assert caught.value.reason is Reason.API_UNAVAILABLE
    assert f"127.0.0.1:{unused_tcp_port}: " in caught.value.message
    assert "object at" not in caught.value.message
    assert "ssl" not in caught.value.message


async def test_discovery_is_asked_once_and_once_more_on_a_miss(api: ScriptedApi) -> None:
    api.script = [answer(page()), answer(page()), answer(page())]
    async with api.client() as kube:
        await asyncio.gather(*(kube.list("v1", kind) for kind in ("ConfigMap", "configmap", "CONFIGMAP")))
        assert api.discoveries == 1
        assert await kube.resource("v1", "Widget") is None
        assert api.discoveries == 2


async def test_an_error_inside_the_stream_expires_the_watch(api: ScriptedApi) -> None:
    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}).encode()
    api.script = [stream(line("ADDED"), gone + b"\n"), answer({"kind": "Status", "code": 410}, 410)]
    async with api.client() as kube:
        watch = kube.watch("v1", "ConfigMap", resource_version="7")
        first = await anext(watch)
        with pytest.raises(WatchExpiredError):
            await anext(watch)
        with pytest.raises(WatchExpiredError):
            await anext(kube.watch("v1", "ConfigMap", resource_version="7"))
    assert (first.type, first.object["apiVersion"], first.object["kind"]) == ("ADDED", "v1", "ConfigMap")


async def test_long_and_split_lines(api: ScriptedApi) -> None:
    long = line("ADDED", data={"x": "y" * 3_000_000})
    api.script = [stream(long[:10], long[10:70_000], long[70_000:] + line("MODIFIED")[:5], line("MODIFIED")[5:])]
    async with api.client() as kube:
        events = [event async for event in kube.watch("v1", "ConfigMap", resource_version="7")]
    assert [event.type for event in events] == ["ADDED", "MODIFIED"]
    assert len(events[0].object["data"]["x"]) == 3_000_000


async def test_a_silent_stream_is_cut(api: ScriptedApi) -> None:
    never = asyncio.Event()
    api.script = [stream(line("ADDED"), then=lambda: _wait(never))]
    async with api.client(silence=0.3) as kube:
        watch = kube.watch("v1", "ConfigMap", resource_version="7")
        await anext(watch)
        began = time.monotonic()
        with pytest.raises(TransientError, match="does not answer"):
            await anext(watch)
    assert 0.2 < time.monotonic() - began < SOON


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_burst_of_requests_opens_few_connections_and_waits_for_no_watch(api: ScriptedApi) -> None:
    never = asyncio.Event()
    busy = most = 0

    async def slow(_request: web.Request) -> web.StreamResponse:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        return web.json_response({"metadata": {}})

    watches = CONCURRENT + 3
    api.script = [stream(line("ADDED"), then=lambda: _wait(never))] * watches + [slow] * 100
    async with api.client() as kube:
        streams = [kube.watch("v1", "ConfigMap", resource_version="7") for _ in range(watches)]
        await asyncio.gather(*(anext(each) for each in streams))
        await asyncio.gather(*(kube.get(REF) for _ in range(100)))
        await asyncio.gather(*(each.aclose() for each in streams))
    assert 1 < most <= CONCURRENT


async def test_reflector_relists_after_expiry_and_resumes_after_a_cut(api: ScriptedApi) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("MODIFIED", version="11"))
        assert request.transport is not None
        request.transport.abort()
        return response

    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).encode() + b"\n"
    never = asyncio.Event()
    api.script = [
        answer({"kind": "Status"}, 503),  # nothing works yet
        answer(page("a", "b", version="10")),
        cut,
        stream(line("BOOKMARK", version="12"), gone),
        answer(page("b", version="20")),  # "a" was deleted while nobody looked
        stream(line("ADDED", "c", version="21"), then=lambda: _wait(never)),
    ]
    errors: list[WindlassError] = []
    seen: list[Any] = []
    async with api.client() as kube:
        events = list_and_watch(kube, "v1", "ConfigMap", on_error=errors.append)
        async for event in events:
            seen.append(names(event.items) if isinstance(event, Listed) else event.type)
            if event == WatchEvent(type="ADDED", object=getattr(event, "object", {})):
                break
        await events.aclose()
    assert seen == [["a", "b"], "MODIFIED", "BOOKMARK", ["b"], "ADDED"]
    assert [type(error) for error in errors] == [TransientError, TransientError]
    watched_from = [r.query["resourceVersion"] for r in api.requests if "watch" in r.query]
    assert watched_from == ["10", "11", "20"]
