from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import aiohttp
import pytest

from windlass.temporal.codec_token import token_at
from windlass.temporal.keyring import ENVIRONMENT_FILE, Keyring

COMMAND = "from windlass.cli.codec import app; app()"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_serve_serves_until_it_is_told_to_stop(tmp_path: Path, number: int) -> None:
    Keyring.load_or_create(tmp_path / "keyring")
    token_file = tmp_path / "token"
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMAND, "serve", "--token-file", str(token_file), "--ui-origin", "http://localhost:1"),
        env={**os.environ, ENVIRONMENT_FILE: str(tmp_path / "keyring")},
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        async with asyncio.timeout(20):
            line = (await server.stdout.readline()).decode()
        endpoint = line.split()[3].rstrip(",")
        token = token_at(token_file)
        assert token not in line
        assert stat.S_IMODE(os.stat(token_file).st_mode) == 0o600  # noqa: PTH116 - one stat, in a test
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{endpoint}/{token}/decode", json={"payloads": []}) as response:
                assert response.status == 200
            async with http.post(f"{endpoint}/decode", json={"payloads": []}) as response:
                assert response.status == 401
        server.send_signal(number)
        async with asyncio.timeout(10):
            assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
