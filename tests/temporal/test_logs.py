from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from windlass import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_loggers_share_one_form_and_context() -> None:
    logs.configure("json", "info", stream=(out := io.StringIO()))
    with logs.context(package="prod.billing", step="install", revision=3):
        structlog.stdlib.get_logger("windlass.helm").info("release upgraded", duration=0.2)
        logging.getLogger("temporalio.worker").warning("poll failed after %d tries", 2)
    ours, theirs = _lines(out)
    assert ours["event"] == "release upgraded"
    assert theirs["event"] == "poll failed after 2 tries"
    for line in (ours, theirs):
        assert (line["package"], line["step"], line["revision"]) == ("prod.billing", "install", 3)
        assert "cluster" not in line
        assert line["timestamp"].endswith("Z")
    assert (ours["level"], theirs["level"]) == ("info", "warning")
    assert (ours["logger"], theirs["logger"]) == ("windlass.helm", "temporalio.worker")


def test_what_temporal_knows_is_said_in_our_words() -> None:
    logs.configure("json", stream=(out := io.StringIO()))
    facts = {"workflow_id": "w/1", "run_id": "r", "workflow_type": "PackageLifecycle", "namespace": "default"}
    logging.getLogger("temporalio.workflow").info("step done", extra={"temporal_workflow": facts})
    (line,) = _lines(out)
    assert (line["workflow_id"], line["run_id"]) == ("w/1", "r")
    assert "temporal_workflow" not in line
    assert "namespace" not in line


def test_levels_are_kept() -> None:
    logs.configure("json", "warning", stream=(out := io.StringIO()))
    structlog.stdlib.get_logger().info("quiet")
    logging.getLogger("x").info("quiet")
    structlog.stdlib.get_logger().error("loud")
    assert [line["event"] for line in _lines(out)] == ["loud"]
    with pytest.raises(ValueError, match="CHATTY"):
        logs.configure("json", "chatty")


def test_configuring_again_replaces_the_former() -> None:
    logs.configure("json", stream=(first := io.StringIO()))
    logger = structlog.stdlib.get_logger()
    logs.configure("json", stream=(second := io.StringIO()))
    logger.info("once")
    assert first.getvalue() == ""
    assert len(_lines(second)) == 1


@pytest.mark.parametrize(
    "key", ["token", "api_key_token", "Authorization", "kubeconfig", "db_password", "values", "apiKey"]
)
def test_keys_that_hold_secrets_are_redacted(key: str) -> None:
    logs.configure("json", stream=(out := io.StringIO()))
    structlog.stdlib.get_logger().info("request", **{key: {"deep": "canary"}})
    assert "canary" not in out.getvalue()
    assert _lines(out)[0][key] == "[redacted]"


def test_long_texts_are_capped() -> None:
    logs.configure("json", stream=(out := io.StringIO()))
    structlog.stdlib.get_logger().info("output", line="x" * 100_000)
    assert len(out.getvalue()) < 9000


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(_Terminal(), "", True), (_Terminal(), "1", False), (io.StringIO(), "", False)],
    ids=["terminal", "NO_COLOR", "file"],
)
def test_colours_only_on_terminals_that_want_them(
    stream: io.StringIO, no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    logs.configure("console", stream=stream)
    structlog.stdlib.get_logger().info("hello", package="a.b")
    assert ("\x1b[" in stream.getvalue()) is coloured
    assert "a.b" in stream.getvalue()


@pytest.mark.parametrize("form", ["console", "json"])
def test_traces_show_no_local_variables(form: logs.Format) -> None:
    logs.configure(form, stream=(out := io.StringIO()))
    local = "canary" + str(len(form))
    try:
        _ = 1 / local.count("nothing")
    except ZeroDivisionError:
        structlog.stdlib.get_logger().exception("failed")
    assert "ZeroDivisionError" in out.getvalue()
    assert local not in out.getvalue()


async def test_context_belongs_to_its_task() -> None:
    logs.configure("json", stream=(out := io.StringIO()))

    async def one(package: str) -> None:
        with logs.context(package=package):
            await asyncio.sleep(0)
            structlog.stdlib.get_logger().info(package)

    await asyncio.gather(one("a"), one("b"))
    assert all(line["event"] == line["package"] for line in _lines(out))
