"""The process of an operator: metrics and health by one argument, exit codes, and what it says when it fails."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.waiting import eventually_sync

WITHIN = 60.0
HEAD = """
import asyncio
from windlass.controllerruntime import Operation
from windlass.domain.errors import PermanentError, Reason
from windlass.operators import run
"""


class Program:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def url(self) -> str:
        def found() -> str:
            assert self.process.poll() is None, self.said
            shown = re.search(r"url=(\S+)/metrics", self.said)
            return shown[1] if shown else ""

        return eventually_sync(found, WITHIN)


Start = Callable[[str], AbstractContextManager[Program]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    @contextmanager
    def started(text: str) -> Iterator[Program]:
        program, log = tmp_path / "main.py", tmp_path / "log"
        program.write_text(HEAD + text)
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, program], stdout=out, stderr=out)
        try:
            yield Program(process, log)
        finally:
            process.kill()
            process.wait()

    return started


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own loopback address
        return str(answer.read().decode())


def test_one_argument_serves_metrics_and_health(start: Start) -> None:
    body = """
from controllerruntime.memory import Controller, MemoryEntities
from windlass.controllerruntime import ControllerRuntime
from windlass.framework import Update, default_metrics

async def main():
    default_metrics().event_seconds.labels("update").observe(0.1)
    controller = Controller(ControllerRuntime("routes", "Route", MemoryEntities(a={}, b={}), resync=60))
    controller.runtime.set_custom_controller(controller)
    await controller.run(2, asyncio.Event())

run(main, metrics="127.0.0.1:0")
"""
    tests = str(Path(__file__).parents[1])
    with start(f"import sys; sys.path.insert(0, {tests!r})\n{body}") as program:
        url = program.url()
        assert read(f"{url}/healthz") == "ok\n"

        def worked() -> bool:
            return 'workqueue_work_duration_seconds_count{name="routes"} 2.0' in read(f"{url}/metrics")

        eventually_sync(worked, WITHIN)
        shown = read(f"{url}/metrics")
        for line in (
            'operatorkit_framework_event_count{event="update"} 1.0',
            'workqueue_adds_total{name="routes"} 2.0',
            'workqueue_depth{name="routes"} 0.0',
            'workqueue_queue_duration_seconds_count{name="routes"} 2.0',
            'workqueue_unfinished_work_seconds{name="routes"} 0.0',
        ):
            assert line in shown
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(WITHIN) == 0, program.said


@pytest.mark.parametrize("address", ["taken", "nonsense", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_listened_on_is_named(start: Start, address: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        if address == "taken":
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        with start(f"async def main(): await asyncio.sleep(60)\nrun(main, metrics={address!r})") as program:
            assert program.process.wait(WITHIN) == 1
            assert f"metrics cannot be served on '{address}'" in program.said
            assert "Traceback" not in program.said


def test_an_error_that_says_what_to_do_is_told_in_one_line(start: Start) -> None:
    text = 'async def main(): raise PermanentError(Reason.FORBIDDEN, "no right", hint="ask for it")\nrun(main)'
    with start(text) as program:
        assert program.process.wait(WITHIN) == 1
        assert len(program.said.splitlines()) == 1
        assert "no right" in program.said
        assert "ask for it" in program.said


def test_any_other_error_comes_with_its_trace(start: Start) -> None:
    with start('async def main(): raise ValueError("a bug")\nrun(main)') as program:
        assert program.process.wait(WITHIN) == 1
        assert "ValueError: a bug" in program.said
        assert 'main.py", line' in program.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(start: Start, number: signal.Signals) -> None:
    text = """
async def main():
    try:
        print("up", flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)
run(main)
"""
    with start(text) as program:
        eventually_sync(lambda: "up" in program.said, WITHIN)
        program.process.send_signal(number)
        assert program.process.wait(WITHIN) == 0
        assert program.said == "up\ncleaned up\n"
