"""Who is answered by the inspect endpoint, and by which worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.service import RPCError, RPCStatusCode

from windlass.adapters.inspection.callers import Caller
from windlass.adapters.inspection.server import Call, Reply
from windlass.adapters.inspection.wire import TooManyRequestsError
from windlass.contracts.inspection import Question, View
from windlass.contracts.objects import Application
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import PackageKey
from windlass.observers.inspection.masking import HIDDEN, masked
from windlass.observers.inspection.pace import CALLERS, Pace
from windlass.observers.inspection.service import Inspection
from windlass.observers.inspection.story import history_document, package_history, received

WEB = PackageKey(installation="it", namespace="shop", name="web")


class Parts:
    """Callers, tickets, owners, peers and answers in one, each as a test wants it."""

    def __init__(self, owner: str = "me/1") -> None:
        self.owner = owner
        self.mine = "me/1"
        self.missing: set[str] = set()
        self.required: list[str] = []
        self.answered: list[View] = []
        self.passed_on: list[tuple[str, str]] = []

    def of(self, key: PackageKey) -> str:
        assert key == WEB
        return self.owner

    async def authenticated(self, token: str) -> Caller:
        if token != "good":
            raise PermanentError(Reason.UNAUTHORIZED, "nobody's")
        return Caller(name="ann")

    async def require(self, caller: Caller, key: PackageKey, verb: str, subresource: str = "") -> None:
        right = f"{verb} {subresource}".strip()
        self.required.append(right)
        if right in self.missing:
            raise PermanentError(Reason.FORBIDDEN, f"{caller.name} may not {right} {key.name}")

    async def holder(self, ticket: str, _key: PackageKey, *, hypothetical: bool) -> str:
        if ticket != "t/s" or hypothetical:
            raise PermanentError(Reason.UNAUTHORIZED, "no ticket")
        return "bob"

    async def ask(self, member: str, *asked: Any) -> Reply:
        caller = asked[-1]
        self.passed_on.append((member, caller))
        return Reply(body=b"{}", member=member)

    async def answer(self, key: PackageKey, view: View, _question: Question) -> Any:
        self.answered.append(view)
        return {"key": key.package_id}

    def inspection(self) -> Inspection:
        part = cast("Any", self)
        return Inspection(answers=self.answer, callers=part, tickets=part, owners=self, peers=self)


def call(view: View = View.VALUES, question: Question | None = None, **credentials: Any) -> Call:
    return Call(key=WEB, view=view, question=question or Question(), **credentials)


async def test_the_owner_answers() -> None:
    parts = Parts()
    reply = await parts.inspection()(call(token="good"))
    assert reply == Reply(body=b'{"key": "shop.web"}', member="me")
    assert parts.required == ["get inspect"]


async def test_others_pass_on_for_whom_they_have_checked() -> None:
    parts = Parts(owner="other/2")
    await parts.inspection()(call(token="good"))
    await parts.inspection()(call(ticket="t/s"))
    assert parts.passed_on == [("other", "ann"), ("other", "bob")]
    assert parts.answered == []


async def test_what_was_passed_on_is_not_passed_on_again() -> None:
    parts = Parts(owner="other/2")
    with pytest.raises(TransientError, match="no worker serves"):
        await parts.inspection()(call(passed_on_for="ann"))
    assert parts.passed_on == []


async def test_while_nobody_serves_the_shard_somebody_says_so() -> None:
    with pytest.raises(TransientError, match="no worker serves"):
        await Parts(owner="").inspection()(call(token="good"))


@pytest.mark.parametrize("credentials", [{}, {"token": "bad"}, {"ticket": "t/x"}, {"token": "good", "ticket": "bad"}])
async def test_strangers_get_nothing(credentials: dict[str, str]) -> None:
    parts = Parts()
    with pytest.raises(PermanentError) as raised:
        await parts.inspection()(call(**credentials))
    assert raised.value.reason is Reason.UNAUTHORIZED
    assert (parts.answered, parts.passed_on) == ([], [])


async def test_without_the_right_nothing_is_read() -> None:
    parts = Parts()
    parts.missing = {"get inspect"}
    with pytest.raises(PermanentError, match="ann may not get inspect"):
        await parts.inspection()(call(token="good"))
    assert parts.answered == []


@pytest.mark.parametrize("question", [Question(version="2"), Question(settings={"a": 1})])
async def test_a_change_is_shown_to_who_could_make_it(question: Question) -> None:
    parts = Parts()
    await parts.inspection()(call(View.RENDER, question, token="good"))
    assert parts.required == ["get inspect", "update"]
    parts.missing = {"update"}
    with pytest.raises(PermanentError, match="may not update"):
        await parts.inspection()(call(View.RENDER, question, token="good"))


async def test_one_caller_who_asks_too_often_does_not_keep_others_from_asking() -> None:
    inspection = Parts().inspection()
    found = await asyncio.gather(*(inspection(call(token="good")) for _ in range(180)), return_exceptions=True)
    refused = [one for one in found if isinstance(one, TooManyRequestsError)]
    assert 60 <= len(refused) <= 80
    assert "ann" in refused[0].message
    await inspection(call(ticket="t/s"))


async def test_guesses_are_bounded_for_everybody_together() -> None:
    inspection = Parts().inspection()

    async def guess(number: int) -> BaseException | None:
        try:
            await inspection(call(token=f"guess-{number}"))
        except (PermanentError, TransientError) as error:
            return error
        return None

    found = await asyncio.gather(*(guess(number) for number in range(300)))
    assert any(isinstance(one, TooManyRequestsError) for one in found)


@given(st.lists(st.tuples(st.floats(0, 2), st.sampled_from("abc")), max_size=60))
def test_no_caller_is_admitted_more_often_than_the_rate(requests: list[tuple[float, str]]) -> None:
    now = [0.0]
    pace = Pace(lambda: now[0], rate=2.0, burst=3)
    admitted: dict[str, list[float]] = {}
    for gap, caller in requests:
        now[0] += gap
        if pace.admits(caller):
            admitted.setdefault(caller, []).append(now[0])
    for times in admitted.values():
        for start in times:
            for end in (at for at in times if at >= start):
                within = [at for at in times if start <= at <= end]
                assert len(within) <= 3 + 2.0 * (end - start) + 1e-6


def test_callers_are_forgotten_in_time() -> None:
    pace = Pace(lambda: 0.0, rate=1.0, burst=1)
    for number in range(CALLERS + 10):
        assert pace.admits(f"caller-{number}")
    assert not pace.admits(f"caller-{CALLERS}")
    assert pace.admits("caller-0")


def test_a_marked_text_is_hidden_wherever_it_stands_also_in_base64() -> None:
    obj = {"kind": "ConfigMap", "data": {"dsn": "db://swordfish@host", "packed": "c3dvcmRmaXNo", "plain": "ok"}}
    shown = masked(obj, {}, frozenset({"swordfish"}))
    assert shown["data"] == {"dsn": f"db://{HIDDEN}@host", "packed": HIDDEN, "plain": "ok"}


class NoTemporal:
    """A client whose server does not answer."""

    namespace = "default"

    async def list_workflows(self, _query: str) -> Any:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        yield

    data_converter = None


async def test_a_history_without_temporal_and_cluster_tells_what_the_object_knows() -> None:
    package = Application.model_validate(
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"package": {"repository": "r", "name": "web", "version": "1.0.0"}},
            "status": {
                "release": {"name": "web", "namespace": "shop", "revision": 1},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Ready",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
        }
    )

    class Away:
        @asynccontextmanager
        async def acting(self, _package: object) -> AsyncIterator[None]:
            raise TransientError(Reason.CLUSTER_UNREACHABLE, "cluster is unreachable")
            yield

        installation = "it"
        client = NoTemporal()

    story = await package_history(cast("Any", Away()), package)
    assert [(one.kind, one.what) for one in story.entries] == [("condition", "Ready")]
    assert story.forgotten[0] == "revisions: cluster is unreachable"
    assert story.forgotten[1].startswith("steps and signals: Temporal answers UNAVAILABLE")
    assert received(history_document(story)) == story
