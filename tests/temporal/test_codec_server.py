from __future__ import annotations

import base64
import io
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from temporalio.api.common.v1 import Payload

from windlass.domain.errors import PermanentError
from windlass.temporal.codec_server import MAX_PAYLOADS, MAX_REQUEST, create_app, serve
from windlass.temporal.codec_token import new_token
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import WORKFLOW_ID, Binding, Sealer

CANARY = "canary-in-a-payload"
UI = "http://127.0.0.1:8233"
TOKEN = new_token()
SEALER = Sealer(Keyring.generate())
HERE = Binding("default", "windlass/package/prod.billing")


@pytest.fixture(scope="module")
async def endpoint() -> AsyncIterator[str]:
    async with serve(
        create_app(SEALER, namespace="default", token=TOKEN, origins=[UI, "http://localhost:8233"]), port=0
    ) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def _body(sealer: Sealer = SEALER, binding: Binding = HERE) -> dict[str, Any]:
    encoded = sealer.seal(Payload(metadata={"encoding": b"json/plain"}, data=f'"{CANARY}"'.encode()), binding)
    metadata = {name: base64.b64encode(value).decode() for name, value in encoded.metadata.items()}
    return {"payloads": [{"metadata": metadata, "data": base64.b64encode(encoded.data).decode()}]}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"/{TOKEN}/decode", {}),
        ("/decode", {"Authorization": f"Bearer {TOKEN}"}),
        ("/decode", {"Authorization": f"bearer {TOKEN}", "Origin": UI}),
        (f"/{TOKEN}/decode", {"Authorization": "Bearer of-the-ui-itself"}),
    ],
    ids=["path", "bearer", "browser", "path beside another bearer"],
)
async def test_the_token_opens(endpoint: str, http: aiohttp.ClientSession, path: str, headers: dict[str, str]) -> None:
    async with http.post(endpoint + path, json=_body(), headers=headers) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        (payload,) = (await response.json())["payloads"]
    assert base64.b64decode(payload["data"]) == f'"{CANARY}"'.encode()
    assert base64.b64decode(payload["metadata"]["encoding"]) == b"json/plain"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/decode", {}),
        ("/wrong/decode", {}),
        (f"/{TOKEN[:-1]}/decode", {}),
        ("/decode", {"Authorization": "Bearer wrong"}),
        ("/decode", {"Authorization": f"Basic {TOKEN}"}),
        ("/decode", {"Authorization": "Bearer"}),
        (f"/{TOKEN}x/decode", {"Authorization": "Bearer ü"}),
    ],
    ids=["none", "wrong", "shorter", "wrong bearer", "basic", "empty bearer", "longer"],
)
async def test_nothing_else_does(
    endpoint: str, http: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    async with http.post(endpoint + path, json=_body(), headers=headers) as response:
        assert response.status == 401
        assert CANARY not in await response.text()


async def test_a_browser_of_another_origin_is_refused_even_with_the_token(
    endpoint: str, http: aiohttp.ClientSession
) -> None:
    headers = {"Origin": "http://evil.example"}
    async with http.post(f"{endpoint}/{TOKEN}/decode", json=_body(), headers=headers) as response:
        assert response.status == 403
        assert "Access-Control-Allow-Origin" not in response.headers
    async with http.options(f"{endpoint}/{TOKEN}/decode", headers=headers) as response:
        assert response.status == 403
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("origin", [UI, "http://localhost:8233"])
async def test_the_preflight_of_the_ui_is_answered_without_a_token(
    endpoint: str, http: aiohttp.ClientSession, origin: str
) -> None:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-namespace",
    }
    async with http.options(f"{endpoint}/decode", headers=headers) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == origin
        assert response.headers["Vary"] == "Origin"
        allowed = response.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert {"authorization", "content-type", "x-namespace"} <= set(allowed)


async def test_errors_reach_the_ui_through_cors(endpoint: str, http: aiohttp.ClientSession) -> None:
    async with http.post(f"{endpoint}/wrong/decode", json=_body(), headers={"Origin": UI}) as response:
        assert response.status == 401
        assert response.headers["Access-Control-Allow-Origin"] == UI


async def test_there_is_no_encode(endpoint: str, http: aiohttp.ClientSession) -> None:
    for path in (f"/{TOKEN}/encode", "/encode"):
        async with http.post(endpoint + path, json={}, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 404


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"payloads": [{"data": 7}]}', b"\xff", b'{"other": 1}'])
async def test_malformed_bodies_are_refused_without_an_echo(
    endpoint: str, http: aiohttp.ClientSession, body: bytes
) -> None:
    async with http.post(f"{endpoint}/{TOKEN}/decode", data=body) as response:
        assert response.status == 400
        assert await response.text() == "the body is not Temporal's Payloads as JSON"


async def test_sizes_are_bounded(endpoint: str, http: aiohttp.ClientSession) -> None:
    async with http.post(f"{endpoint}/{TOKEN}/decode", data=io.BytesIO(bytes(MAX_REQUEST + 1))) as response:
        assert response.status == 413
    async with http.post(f"{endpoint}/{TOKEN}/decode", json={"payloads": [{}] * (MAX_PAYLOADS + 1)}) as response:
        assert response.status == 413


async def test_an_unknown_key_is_named(endpoint: str, http: aiohttp.ClientSession) -> None:
    foreign = Keyring.generate()
    async with http.post(f"{endpoint}/{TOKEN}/decode", json=_body(Sealer(foreign))) as response:
        assert response.status == 422
        assert foreign.current in await response.text()


async def test_nothing_of_a_request_is_logged(
    endpoint: str, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for path in (f"/{TOKEN}/decode", "/wrong/decode"):
            async with http.post(endpoint + path, json=_body()):
                pass
        async with http.post(f"{endpoint}/{TOKEN}/decode", data=CANARY.encode()):
            pass
    assert TOKEN not in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("token", ["", "short", "x" * 31, "with/slash" * 5, "with space" * 5, "x" * 40 + "\n"])
def test_weak_or_unroutable_tokens_are_refused(token: str) -> None:
    with pytest.raises(PermanentError, match="32 or more"):
        create_app(SEALER, namespace="default", token=token, origins=[])


async def test_a_taken_port_is_said(endpoint: str) -> None:
    taken = int(endpoint.rpartition(":")[2])
    with pytest.raises(PermanentError, match=f":{taken}"):
        async with serve(create_app(SEALER, namespace="default", token=TOKEN, origins=[]), port=taken):
            pass


async def test_the_namespace_of_the_request_counts(endpoint: str, http: aiohttp.ClientSession) -> None:
    body = _body(binding=Binding("team-a", HERE.workflow_id))
    for namespace, status in (("team-a", 200), ("default", 422)):
        headers = {"X-Namespace": namespace}
        async with http.post(f"{endpoint}/{TOKEN}/decode", json=body, headers=headers) as response:
            assert response.status == status


async def test_a_payload_that_names_another_workflow_than_its_own_is_refused(
    endpoint: str, http: aiohttp.ClientSession
) -> None:
    body = _body()
    body["payloads"][0]["metadata"][WORKFLOW_ID] = base64.b64encode(b"windlass/package/test.billing").decode()
    async with http.post(f"{endpoint}/{TOKEN}/decode", json=body) as response:
        assert response.status == 422
        assert CANARY not in await response.text()


async def test_what_was_never_encoded_is_shown_as_it_is(endpoint: str, http: aiohttp.ClientSession) -> None:
    plain = {
        "metadata": {"encoding": base64.b64encode(b"json/plain").decode()},
        "data": base64.b64encode(b"1").decode(),
    }
    async with http.post(f"{endpoint}/{TOKEN}/decode", json={"payloads": [plain]}) as response:
        assert (await response.json())["payloads"] == [plain]
