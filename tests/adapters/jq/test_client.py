"""Filters in real children: results, refusals, loops, memory, and what a filter cannot reach."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.waiting import eventually
from windlass.adapters.jq.client import JqClient
from windlass.domain.errors import PermanentError, Reason, TransientError

LOOP = "def f: f; f"
POD = {"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"containers": [{"image": "x"}, {"image": "y"}]}}


@pytest.fixture(scope="module")
async def jq() -> AsyncIterator[JqClient]:
    async with JqClient() as client:
        yield client


@pytest.mark.parametrize(
    ("program", "value", "results"),
    [
        (".metadata.labels", POD, [{"app": "web"}]),
        (".spec.containers[].image", POD, ["x", "y"]),
        ("empty", POD, []),
        (".absent", POD, [None]),
        ("{a, b: (.b // 2)} | tojson", {"a": 1}, ['{"a":1,"b":2}']),
        ('test("^w.b$")', "web", [True]),
        ("# only a comment\n.", 'line\nbreak "quoted" ü', ['line\nbreak "quoted" ü']),
        (".[]", [1, 2.5, True, None, "ü"], [1, 2.5, True, None, "ü"]),
    ],
)
async def test_results(jq: JqClient, program: str, value: Any, results: list[Any]) -> None:
    assert await jq.run(program, value) == results


async def test_a_filter_is_compiled_when_it_is_checked(jq: JqClient) -> None:
    await jq.check(".a | error")
    with pytest.raises(
        PermanentError, match=r"jq filter '\.a \|': not valid: syntax error.*line 1, column 4"
    ) as caught:
        await jq.check(".a |")
    assert caught.value.reason is Reason.FILTER_FAILED

    with pytest.raises(PermanentError, match=r"nosuch/0 is not defined"):
        await jq.run("nosuch", {})


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (".password[]", "fails on the value: Cannot iterate over string"),
        (".password.x", "fails on the value: Cannot index string with string"),
        (".password + 1", "fails on the value: string"),
        (".password | tonumber", "fails on the value: string"),
        ("error(.password)", "fails on the value"),
        ("error(.)", "fails on the value"),
    ],
)
async def test_a_failing_filter_never_quotes_the_value(jq: JqClient, program: str, said: str) -> None:
    with pytest.raises(PermanentError) as caught:
        await jq.run(program, {"password": "hunter2"})

    assert caught.value.message.endswith(said)
    assert "hunter2" not in str(caught.value)


async def test_a_loop_is_killed_and_others_go_on(jq: JqClient) -> None:
    looping = asyncio.create_task(jq.on_behalf_of("loops").run(LOOP, None, timeout=2))
    await asyncio.sleep(0)
    assert await jq.run(".a", {"a": 1}) == [1]
    assert not looping.done()

    with pytest.raises(TransientError, match="did not end within 2 s and was killed"):
        await looping
    assert await jq.run(".a", {"a": 1}) == [1]


async def test_endless_results_and_huge_ones_are_refused(jq: JqClient) -> None:
    with pytest.raises(PermanentError, match="more than 10000 results"):
        await jq.run("repeat(1)", None, timeout=30)
    with pytest.raises(PermanentError, match="more than 16777216 bytes"):
        await jq.run('"x" * 20000000', None, timeout=30)
    assert await jq.run(".", 1) == [1]


async def test_a_filter_that_eats_memory_ends_alone(jq: JqClient) -> None:
    with pytest.raises(TransientError, match="its process died"):
        await jq.run('[limit(40; repeat("x" * 100000000))] | map(. + "y") | length', None, timeout=60)
    assert await jq.run(".", 1) == [1]


async def test_a_filter_reaches_neither_files_nor_environment(
    jq: JqClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"secret": 1}))
    monkeypatch.setenv("WINDLASS_TEST_SECRET", "hunter2")
    async with JqClient(size=1) as fresh:
        assert "hunter2" not in json.dumps(await fresh.run("env, $ENV", None))
    with pytest.raises((PermanentError, TransientError)):
        await jq.run(f'import "x" as $x {{search: "{tmp_path}"}}; $x', None)
    assert await jq.run(".", 1) == [1]


async def test_a_child_that_was_killed_is_replaced() -> None:
    async with JqClient(size=1) as jq:
        looping = asyncio.create_task(jq.run(LOOP, None, timeout=60))
        await eventually(lambda: jq.busy)
        os.kill(jq.busy[0], signal.SIGKILL)
        with pytest.raises(TransientError, match="its process died"):
            await looping
        assert await jq.run(".", 1) == [1]
