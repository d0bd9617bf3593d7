"""Starting, stopping, being killed, and going on: whole stacks of their own, beside the session's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from support.cluster import get, kubectl, processes_of, run, windlass
from support.waiting import eventually_sync
from windlass.devstack.errors import StackError
from windlass.devstack.stack import Stack, StackOptions
from windlass.devstack.state import Phase, StackState, is_running

PARTS = {"temporal", "codec", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}


@workflow.defn
class Waiting:
    """Counts to two, one signal at a time."""

    def __init__(self) -> None:
        self._heard: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: len(self._heard) == 2)
        return self._heard

    @workflow.signal
    def say(self, word: str) -> None:
        self._heard.append(word)

    @workflow.query
    def heard(self) -> list[str]:
        return self._heard


@contextmanager
def up(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `windlass up` in front until the block ends; it is ready when the block begins."""
    process = subprocess.Popen(
        windlass("up", data_dir=data_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            eventually_sync(lambda: ready(data_dir) or process.poll() is not None, 60, what="the stack is ready")
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()


def ready(data_dir: Path) -> bool:
    state = StackState.load(data_dir)
    return is_running(data_dir) and state is not None and state.phase is Phase.READY


def nothing_left(data_dir: Path) -> None:
    eventually_sync(lambda: not processes_of(data_dir), what=f"no process of {data_dir}")
    # A process that is being killed has no command line any more while it still holds its lock.
    eventually_sync(lambda: not is_running(data_dir), what=f"the lock of {data_dir} is free")


async def test_killed_with_its_whole_state_kept(stack: Stack, tmp_path: Path) -> None:
    """Kill `windlass up`, then a supervisor: nothing runs on, and what was begun goes on at the next start."""
    with up(tmp_path) as process:
        first = Stack.attach(tmp_path)
        assert first.pids.keys() == PARTS | {"supervisor"}
        assert len({stack.temporal_address, first.temporal_address}) == 2
        kubectl(stack, "get", "--raw", "/readyz")  # the session's stack is not disturbed by a second one
        kubectl(first, "create", "configmap", "kept", "--from-literal=word=here")
        address, kubeconfig = first.temporal_address, first.kubeconfig.read_text()
        client = await Client.connect(address)
        handle = await client.start_workflow(Waiting.run, id="kept", task_queue="kept")
        async with worker(client):
            await handle.signal(Waiting.say, "before")
            assert await handle.query(Waiting.heard) == ["before"]
        process.kill()
        nothing_left(tmp_path)

    with Stack.start(tmp_path) as second:
        assert (second.temporal_address, second.kubeconfig.read_text()) == (address, kubeconfig)
        assert get(second, "configmap", "kept")["data"] == {"word": "here"}
        client = await Client.connect(address)
        async with worker(client):
            handle = client.get_workflow_handle_for(Waiting.run, "kept")
            await handle.signal(Waiting.say, "after")
            async with asyncio.timeout(20):
                assert await handle.result() == ["before", "after"]
        os.kill(second.pids["supervisor"], signal.SIGKILL)
        nothing_left(tmp_path)


def worker(client: Client) -> Worker:
    return Worker(client, task_queue="kept", workflows=[Waiting], workflow_runner=UnsandboxedWorkflowRunner())


def test_detached_with_all_its_commands(tmp_path: Path) -> None:
    started = run("up", "--detach", data_dir=tmp_path)
    try:
        assert started.returncode == 0, started.stderr
        assert f"export KUBECONFIG={tmp_path / 'kubeconfig'}" in started.stdout
        again = run("up", data_dir=tmp_path)
        assert again.returncode == 1
        assert "runs in" in again.stderr
        assert "windlass down" in again.stderr

        shown = run("status", data_dir=tmp_path)
        assert shown.returncode == 0, shown.stdout
        assert {line.split()[0] for line in shown.stdout.split("\n\n")[0].splitlines()[1:]} == PARTS
        kill_part(tmp_path, "kube-scheduler")
        parts = {part["part"]: part for part in status(tmp_path)["parts"]}
        assert parts["kube-scheduler"]["restarts"] == 1
        shown = run("status", data_dir=tmp_path)
        assert "kube-scheduler was killed by SIGKILL: " in shown.stdout
        assert "the end of its log:" in shown.stdout

        log = run("logs", "supervisor", "-n", "1000", data_dir=tmp_path)
        assert "kube-scheduler: ready after" in log.stdout
        unknown = run("logs", "nothing", data_dir=tmp_path)
        assert unknown.returncode == 1
        assert "there are: codec, crds, etcd" in unknown.stderr

        examined = run("doctor", "-o", "json", data_dir=tmp_path)
        subjects = {finding["subject"]: finding for finding in json.loads(examined.stdout)}
        assert subjects["etcd"]["level"] == "ok"
        assert subjects["stack"]["found"].startswith("ready: Temporal 127.0.0.1:")
    finally:
        stopped = run("down", data_dir=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    nothing_left(tmp_path)
    assert run("status", data_dir=tmp_path).returncode == 1
    assert run("down", data_dir=tmp_path).returncode == 0


def status(data_dir: Path) -> dict[str, list[dict[str, object]]]:
    return json.loads(run("status", "-o", "json", data_dir=data_dir).stdout)


def kill_part(data_dir: Path, name: str) -> None:
    stack = Stack.attach(data_dir)
    before = stack.pids[name]
    os.kill(before, signal.SIGKILL)

    def back() -> bool:
        part = stack.state.parts[name]
        return part.phase == "ready" and part.pid != before

    eventually_sync(back, what=f"{name} is back")


def test_up_stops_in_order_on_ctrl_c(stack: Stack, tmp_path: Path) -> None:
    assert told_to_stop(signal.SIGINT, stack, tmp_path) == {"supervisor", "temporal", "codec"}


def test_up_stops_in_order_on_sigterm(stack: Stack, tmp_path: Path) -> None:
    brought = ("--temporal-address", stack.temporal_address)
    assert told_to_stop(signal.SIGTERM, stack, tmp_path, *brought) == {"supervisor"}


def told_to_stop(number: int, stack: Stack, data_dir: Path, *options: str) -> set[str]:
    """Let `windlass up` stop, see that it does so in order, and return what ran."""
    command = windlass("up", "--kubeconfig", str(stack.kubeconfig), *options, data_dir=data_dir)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "Ctrl-C stops the stack" not in (line := process.stdout.readline()):
            assert line, "it ended before it was up"
        ran = set(Stack.attach(data_dir).pids)
        process.send_signal(number)
        assert process.stdout.read() == "stopped\n"
    assert process.returncode == 0
    nothing_left(data_dir)
    state = StackState.load(data_dir)
    assert state is not None
    assert state.phase is Phase.STOPPED
    return ran


def test_everything_brought_along(stack: Stack, tmp_path: Path) -> None:
    options = StackOptions(kubeconfig=stack.kubeconfig, temporal_address=stack.temporal_address)
    with Stack.start(tmp_path, options=options) as own:
        assert own.pids.keys() == {"supervisor"}
        assert (own.kubeconfig, own.temporal_address, own.ui_url) == (stack.kubeconfig, stack.temporal_address, "")


def test_a_part_that_cannot_start_fails_the_start_with_its_words(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "temporal"
    broken.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 1.5.1 && exit\necho 'no space left on device' >&2\nexit 7\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("WINDLASS_TOOL_TEMPORAL", str(broken))
    with pytest.raises(
        StackError,
        match=r"(?s)temporal exited with code 7, 3 times in a row: the disk is full\nwhat to do:.*no space left on",
    ):
        Stack.start(tmp_path / "data", options=StackOptions(kubeconfig=stack.kubeconfig))
    nothing_left(tmp_path / "data")


def test_damaged_data_is_called_that(stack: Stack, tmp_path: Path) -> None:
    options = StackOptions(kubeconfig=stack.kubeconfig)
    with Stack.start(tmp_path, options=options):
        pass
    (tmp_path / "temporal.db-wal").unlink(missing_ok=True)  # it would be written over what is damaged
    (tmp_path / "temporal.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(
        StackError, match=r"(?s)temporal exited with code .*: its data is damaged\nwhat to do: .*afresh"
    ):
        Stack.start(tmp_path, options=options)
    state = StackState.load(tmp_path)
    assert state is not None
    assert state.parts["temporal"].cause == "its data is damaged"
    nothing_left(tmp_path)
