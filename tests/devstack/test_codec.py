"""The Temporal UI of the stack shows what workers write encrypted."""

from __future__ import annotations

import base64
import stat

import aiohttp
import pytest
from temporalio.api.common.v1 import Payload

from windlass.devstack.stack import Stack
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import Binding, Sealer


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_ui_can_decode_and_nobody_elses_page(stack: Stack, host: str) -> None:
    sealer = Sealer(Keyring.load(stack.data_dir / "keyring.yaml"))
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b'"readable"')
    encoded = sealer.seal(plain, Binding("default", "windlass/package/prod.billing"))
    assert b"readable" not in encoded.data
    body = {
        "payloads": [
            {
                "metadata": {name: base64.b64encode(value).decode() for name, value in encoded.metadata.items()},
                "data": base64.b64encode(encoded.data).decode(),
            }
        ]
    }
    origin = stack.ui_url.replace("127.0.0.1", host)
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{stack.ui_url}/api/v1/settings") as settings:
            endpoint = (await settings.json())["Codec"]["Endpoint"]
        async with http.post(f"{endpoint}/decode", json=body, headers={"Origin": origin}) as answer:
            (payload,) = (await answer.json())["payloads"]
            assert base64.b64decode(payload["data"]) == b'"readable"'
            assert answer.headers["Access-Control-Allow-Origin"] == origin
        async with http.post(f"{endpoint}/decode", json=body, headers={"Origin": "http://elsewhere.test"}) as answer:
            assert answer.status == 403


def test_keys_and_token_are_for_their_owner_only(stack: Stack) -> None:
    for name in ("keyring.yaml", "digest-key", "codec-token"):
        assert stat.S_IMODE((stack.data_dir / name).stat().st_mode) == 0o600
