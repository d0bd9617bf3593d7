"""The inspect endpoint over TLS: bounds, certificates, and that no failure of one request shows or ends anything."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from support.waiting import eventually
from windlass.adapters.inspection import server as serving
from windlass.adapters.inspection.authority import MEMBER_LIFE, Authority, trusting
from windlass.adapters.inspection.client import InspectClient, UnreachableError
from windlass.adapters.inspection.server import Call, InspectServer, Reply
from windlass.contracts.inspection import CALLER_HEADER, MAX_QUESTION, Question, View, path_of, server_name
from windlass.domain.errors import PermanentError, Reason, WindlassError
from windlass.domain.ids import Kind, PackageKey

NOW = datetime.now(UTC)
AUTHORITY = Authority.made("it", NOW)
OTHERS = Authority.made("it", NOW)
WEB = PackageKey(installation="it", namespace="shop", name="web")
PATH = path_of(WEB, View.VALUES)


class Answers:
    """Keeps the calls, and answers with ``reply`` or by raising it."""

    def __init__(self, reply: bytes | BaseException = b"{}") -> None:
        self.calls: list[Call] = []
        self.reply = reply
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, call: Call) -> Reply:
        self.calls.append(call)
        await self.hold.wait()
        if isinstance(self.reply, BaseException):
            raise self.reply
        return Reply(body=self.reply, member="w1")


@asynccontextmanager
async def served(answers: Answers) -> AsyncIterator[str]:
    server = InspectServer(answers, installation="it", member="w1", host="127.0.0.1", port=0)
    await server.serve(AUTHORITY.certificate("w1", (), NOW))
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.close()


async def raw(
    address: str, path: str, *, body: bytes = b"", tls: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://{address}{path}",
            data=io.BytesIO(body),
            headers=headers,
            ssl=tls or trusting(AUTHORITY.certificate_pem),
            server_hostname=server_name("w1"),
        ) as response,
    ):
        return response.status, json.loads(await response.read())


async def test_a_question_arrives_whole() -> None:
    answers = Answers(b'{"a":1}')
    async with served(answers) as address, InspectClient(trusting(AUTHORITY.certificate_pem)) as client:
        question = Question(version="2.0.0", settings={"a": {"b": [1]}})
        reply = await client.ask(address, "w1", PATH, question, {"Authorization": "Bearer t0ken"})
    assert reply == Reply(body=b'{"a":1}', member="w1")
    [call] = answers.calls
    assert (call.key, call.view, call.question, call.token) == (WEB, View.VALUES, question, "t0ken")
    assert call.passed_on_for is None
    assert "t0ken" not in repr(call)


async def test_a_module_has_no_namespace() -> None:
    answers, module = Answers(), PackageKey(installation="it", kind=Kind.MODULE, name="dns")
    async with served(answers) as address, InspectClient(trusting(AUTHORITY.certificate_pem)) as client:
        await client.ask(address, "w1", path_of(module, View.TREE), Question(), {})
    assert answers.calls[0].key == module


async def test_only_a_worker_can_speak_for_somebody() -> None:
    answers = Answers()
    peer = AUTHORITY.certificate("w2", (), NOW).asking()
    async with served(answers) as address:
        await raw(address, PATH, **{CALLER_HEADER: "admin"})
        await raw(address, PATH, tls=peer, **{CALLER_HEADER: "ann"})
        stranger = trusting(AUTHORITY.certificate_pem)
        foreign = OTHERS.certificate("w2", (), NOW)
        foreign._load(stranger)
        with pytest.raises((aiohttp.ClientError, OSError)):
            await raw(address, PATH, tls=stranger, **{CALLER_HEADER: "admin"})
    assert [call.passed_on_for for call in answers.calls] == [None, "ann"]


async def test_a_server_of_another_authority_or_worker_is_not_asked() -> None:
    answers = Answers()
    async with served(answers) as address:
        async with InspectClient(trusting(OTHERS.certificate_pem)) as client:
            with pytest.raises(UnreachableError):
                await client.ask(address, "w1", PATH, Question(), {"Authorization": "Bearer t0ken"})
        async with InspectClient(trusting(AUTHORITY.certificate_pem)) as client:
            with pytest.raises(UnreachableError):
                await client.ask(address, "w2", PATH, Question(), {"Authorization": "Bearer t0ken"})
    assert answers.calls == []


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/inspect/v1/Secret/shop/web/values", b"", 422),
        ("/inspect/v1/Application/-/web/values", b"", 422),
        ("/inspect/v1/Module/shop/dns/values", b"", 422),
        ("/inspect/v1/Application/shop/web/secrets", b"", 422),
        ("/elsewhere", b"", 404),
        (PATH, b"{", 422),
        (PATH, b"[]", 422),
        (PATH, b"[" * 100_000, 422),
        (PATH, b'{"version": 1}', 422),
        (PATH, b'{"showSecrets": true}', 422),
        (PATH, b'{"against": "canary"}', 422),
        (PATH, b'{"version": "' + b"x" * (MAX_QUESTION + 1) + b'"}', 413),
    ],
)
async def test_what_is_no_question_is_refused_before_anybody_is_asked(path: str, body: bytes, code: int) -> None:
    answers = Answers()
    async with served(answers) as address:
        status, found = await raw(address, path, body=body)
    assert (status, found["kind"], found["code"]) == (code, "Status", code)
    assert "canary" not in json.dumps(found)
    assert answers.calls == []


async def test_a_failure_is_told_and_a_fault_is_not() -> None:
    async with served(Answers(PermanentError(Reason.FORBIDDEN, "not you", hint="ask"))) as address:
        status, found = await raw(address, PATH)
        assert (status, found["reason"], found["message"], found["details"]["hint"]) == (
            403,
            "Forbidden",
            "not you",
            "ask",
        )
    answers = Answers(ValueError("swordfish"))
    async with served(answers) as address:
        status, found = await raw(address, PATH)
        assert (status, found["reason"]) == (500, "Internal")
        assert "swordfish" not in json.dumps(found)
        answers.reply = b"{}"
        assert (await raw(address, PATH))[0] == 200


async def test_more_requests_than_it_works_on_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "CONCURRENT", 2)
    answers = Answers()
    answers.hold.clear()
    async with served(answers) as address:
        first = [asyncio.create_task(raw(address, PATH)) for _ in range(2)]
        await eventually(lambda: len(answers.calls) == 2)
        status, found = await raw(address, PATH)
        assert (status, found["code"]) == (429, 429)
        answers.hold.set()
        assert [one[0] for one in await asyncio.gather(*first)] == [200, 200]


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.adapters.inspection.client.MAX_ANSWER", 1000)
    client = InspectClient(trusting(AUTHORITY.certificate_pem))
    async with served(Answers(b"x" * 2000)) as address, client:
        with pytest.raises(WindlassError, match="larger"):
            await client.ask(address, "w1", PATH, Question(), {})


def test_a_certificate_is_renewed_at_half_its_life_and_with_its_authority() -> None:
    made = AUTHORITY.certificate("w1", (), NOW)
    assert not made.stale(AUTHORITY, NOW + MEMBER_LIFE / 3)
    assert made.stale(AUTHORITY, NOW + MEMBER_LIFE / 2 + timedelta(minutes=1))
    assert made.stale(OTHERS, NOW)


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(AUTHORITY)
    assert "PRIVATE" not in repr(AUTHORITY.certificate("w1", (), NOW))
