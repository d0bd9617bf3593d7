"""Records a run on a real server, and replays it with the code it ran and with other code."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from replay import recorder
from replay.keyring import REPLAY_KEYRING, REPLAY_NAMESPACE
from replay.paths import recorded
from replay.replaying import read, replay
from temporal.sample import Request, SampleWorkflow, work
from temporal.sample_edited import CarelesslyEdited
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from windlass.devstack.stack import Stack
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.interceptors import FailureInterceptor
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import is_sealed
from windlass.worker.sandbox import workflow_runner

pytestmark = pytest.mark.stack

CANARY = "canary-0815"


@pytest.fixture(scope="module")
async def client(stack: Stack) -> Client:
    """A client under another keyring than the recorded histories have, as an end-to-end run has."""
    return await connect(TemporalTarget(address=stack.temporal_address), keyring=Keyring.generate(), role="test")


@pytest.fixture(scope="module")
async def run(client: Client) -> AsyncIterator[tuple[str, str]]:
    """Workflow id and run id of a finished run with a failed activity."""
    async with Worker(
        client,
        task_queue=(queue := f"record-{uuid4()}"),
        workflows=[SampleWorkflow],
        activities=[work],
        workflow_runner=workflow_runner(),
        interceptors=[FailureInterceptor()],
    ):
        secret = f"{CANARY} in {Path.home()}/cache"
        handle = await client.start_workflow(
            SampleWorkflow.run, Request(secret=secret, fail="ours"), id=f"sample/{uuid4()}", task_queue=queue
        )
        await handle.result()
        yield handle.id, handle.result_run_id or ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where histories go in this test; recording is on."""
    monkeypatch.setattr(recorder, "HISTORIES", tmp_path)
    monkeypatch.setattr(recorder, "listed", lambda: ["failing"])
    monkeypatch.setenv(recorder.SWITCH, "1")
    return tmp_path


async def test_a_recorded_run_replays_with_its_code_and_not_with_other_code(
    client: Client, run: tuple[str, str], folder: Path
) -> None:
    await recorder.record_history(client, *run, "failing")
    assert list(recorded(folder)["Sample"]) == ["failing"]
    history = read(folder / "failing.json")
    assert history.workflow_id == run[0]
    await replay(history, [SampleWorkflow])
    with pytest.raises(workflow.NondeterminismError):
        await replay(history, [CarelesslyEdited])


async def test_a_recorded_run_tells_nothing_of_the_machine_and_holds_no_text_in_clear(
    client: Client, run: tuple[str, str], folder: Path
) -> None:
    await recorder.record_history(client, *run, "failing")
    text = (folder / "failing.json").read_text()
    # What an identity looks like; a short host name alone may stand in any ciphertext.
    assert f"@{socket.gethostname()}" not in text
    assert CANARY not in text

    sealer, binding = recorder.Sealer(REPLAY_KEYRING), recorder.Binding(REPLAY_NAMESPACE, run[0])
    payloads = [payload for event in read(folder / "failing.json").events for payload in recorder.payloads(event)]
    plain = b"".join(sealer.open(payload, binding).data for payload in payloads if is_sealed(payload))
    assert CANARY.encode() in plain
    assert str(Path.home()).encode() not in plain
    assert b"sample.py" not in plain, "stack traces stay out"


async def test_nothing_is_recorded_unless_asked_for(
    client: Client, run: tuple[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(recorder.SWITCH)
    await recorder.record_history(client, *run, "failing")
    assert not recorded(folder)


async def test_a_name_outside_the_list_is_refused(client: Client, run: tuple[str, str], folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"'surprise' is not in .*PATHS"):
        await recorder.record_history(client, *run, "surprise")
    assert not recorded(folder)
