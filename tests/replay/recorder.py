"""Records histories for replay: from a real run, under the fixed key, without a trace of the machine it ran on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from replay.keyring import REPLAY_KEYRING, REPLAY_NAMESPACE
from replay.paths import HISTORIES, listed
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowHistory

from windlass.temporal.codec import PayloadCodec
from windlass.temporal.sealing import ENCODING, Binding, Sealer

SWITCH = "WINDLASS_RECORD_HISTORIES"

_SEALER = Sealer(REPLAY_KEYRING)
_MACHINE = {
    str(Path(__file__).parent.parent.parent): "/windlass",
    str(Path.home()): "/home/windlass",
}
_IDENTITIES = {"identity", "binaryChecksum", "processKey", "workerIdentity"}
_STICKY = "TASK_QUEUE_KIND_STICKY"


async def record_history(client: Client, workflow_id: str, run_id: str | None, name: str) -> None:
    """Keep the history of one run as path ``name``, if ``WINDLASS_RECORD_HISTORIES=1``; else do nothing.

    Args:
        client: its codec must be able to read the run's payloads.
        workflow_id: which workflow.
        run_id: which run; None for the latest.
        name: a name in tests/replay/PATHS.
    """
    if os.environ.get(SWITCH) != "1":
        return
    if name not in listed():
        raise AssertionError(f"{name!r} is not in tests/replay/PATHS: add it there first")
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    text = portable(history, cast("PayloadCodec", client.data_converter.payload_codec).sealer, client.namespace)
    (HISTORIES / f"{name}.json").write_text(text)


def portable(history: WorkflowHistory, sealer: Sealer, namespace: str) -> str:
    """Return ``history`` as JSON, its payloads under the fixed key, identities, traces and paths taken out."""
    events = [type(event).FromString(event.SerializeToString()) for event in history.events]
    for event in events:
        for payload in payloads(event):
            if payload.metadata.get("encoding") != ENCODING:
                continue
            plain = sealer.open(payload, Binding(namespace, history.workflow_id))
            plain.data = _anonymous(plain.data)
            payload.CopyFrom(_SEALER.seal(plain, Binding(REPLAY_NAMESPACE, history.workflow_id)))
    document = json.loads(WorkflowHistory(history.workflow_id, events).to_json())
    return json.dumps(_clean(document), indent=1) + "\n"


def _anonymous(data: bytes) -> bytes:
    for path, instead in _MACHINE.items():
        data = data.replace(path.encode(), instead.encode())
    if b'"stack_trace"' in data:
        # What an encoded failure carries beside its message.
        fields: dict[str, Any] = json.loads(data)
        if fields.keys() == {"message", "stack_trace"}:
            data = json.dumps({**fields, "stack_trace": ""}).encode()
    return data


def payloads(message: Message) -> Iterator[Payload]:
    """Yield every payload anywhere in ``message``, for reading and changing in place."""
    for descriptor, value in message.ListFields():
        if descriptor.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for child in _messages(descriptor, value):
            if isinstance(child, Payload):
                yield child
            else:
                yield from payloads(child)


def _messages(descriptor: FieldDescriptor, value: Any) -> list[Message]:
    kind = descriptor.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return [entry for entry in value.values() if isinstance(entry, Message)]
    return [value] if isinstance(value, Message) else list(value)


def _clean(node: Any) -> Any:
    if isinstance(node, list):
        return [_clean(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    if fields.get("kind") == _STICKY:
        fields = {**fields, "name": "sticky"}
    return {
        key: "recorded" if key in _IDENTITIES else "" if key == "stackTrace" else _clean(value)
        for key, value in fields.items()
    }
