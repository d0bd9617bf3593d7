"""Secrets stay where they belong: canaries are searched wherever a life leaves traces."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from google.protobuf.message import Message
from replay.recorder import payloads
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from support.installation import GREETING, Installation, write_package
from support.running import events, packages, running
from windlass.devstack.stack import Stack
from windlass.domain.ids import package_workflow_id
from windlass.ports.kube import Object
from windlass.temporal.converter import converter_for

SETTING = "canary-in-a-setting"
TEXT = "canary-as-one-text"
PATCHED = "canary-of-a-hook"
PLAIN = "canary-in-clear"
CANARIES = (SETTING, TEXT, PATCHED)
"""What must not be seen anywhere but in Secrets."""

FAILURE = "the hook said this"
"""What people may read in status, and nobody in a history without the key."""

NAME = "vault"

USES = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
stringData:
  password: {{ .Values.password | quote }}
  token: {{ .Values.token | quote }}
  made: {{ .Values.made | quote }}
  plain: {{ .Values.plain | quote }}
"""
TEXTS = {name: {"type": "string"} for name in ("password", "token", "plain")}

HOOK = """\
#!/bin/sh
if [ "$1" = --config ]; then echo '{{"configVersion": "v1", "beforeHelm": 1}}'; exit 0; fi
if [ ! -e {once} ]; then touch {once}; echo '{failure}' >&2; exit 1; fi
echo '{{"op": "add", "path": "/vault/made", "value": "{patched}"}}' > $VALUES_JSON_PATCH_PATH
"""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """An installation in which a package with secrets from everywhere has lived: failed, healed, was reconfigured."""
    folder = tmp_path_factory.mktemp("secrets")
    async with running(stack, folder) as made:
        write_package(
            packages(made),
            NAME,
            "1.0.0",
            templates={"secret.yaml": USES},
            settings={**TEXTS, **GREETING},
            hooks={"hook.sh": HOOK.format(once=folder / "once", failure=FAILURE, patched=PATCHED)},
        )
        source: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "source", "namespace": made.namespace},
            "stringData": {"values.yaml": f"password: {SETTING}\n", "token": TEXT},
        }
        await made.apply(source)
        references = [
            {"kind": "Secret", "name": "source"},
            {"kind": "Secret", "name": "source", "key": "token", "targetPath": "token"},
        ]
        await made.application(NAME, NAME, "1.0.0", settings={"plain": PLAIN}, valuesFrom=references)
        await made.status(NAME, lambda status: FAILURE in status.get("failure", {}).get("message", ""))
        await made.ready(NAME)
        # Settings that break a rule of the schema just where a secret stands.
        source["stringData"]["values.yaml"] = f"password: [{SETTING}]\n"
        await made.apply(source)
        await made.status(NAME, lambda status: "settings.password" in status.get("failure", {}).get("message", ""))
        source["stringData"]["values.yaml"] = f"password: {SETTING}\n"
        await made.apply(source)
        await made.ready(NAME)
        yield made


def found(text: bytes | str) -> list[str]:
    """Return the canaries in ``text``, in clear or base64 at any alignment."""
    raw = text.encode() if isinstance(text, str) else text
    return [canary for canary in CANARIES if any(form in raw for form in forms(canary.encode()))]


def forms(canary: bytes) -> list[bytes]:
    """Return how ``canary`` may stand in a text; base64 without the characters that depend on what surrounds it."""
    encoded = [base64.b64encode(b"\0" * shift + canary)[(shift * 8 + 5) // 6 :] for shift in range(3)]
    return [canary, *(one.rstrip(b"=")[:-1] for one in encoded)]


async def test_the_canaries_are_where_they_belong(installation: Installation) -> None:
    made = await installation.get("Secret", NAME)
    assert made is not None
    assert {base64.b64decode(text).decode() for text in made["data"].values()} == {*CANARIES, PLAIN}
    assert found(json.dumps(made)) == list(CANARIES), "the search finds what there is"


async def test_no_history_holds_a_secret_not_even_encrypted(installation: Installation) -> None:
    events_ = [event for history in await installation.chain(NAME) for event in history.events]
    plain = b"".join([payload.data for event in events_ for payload in await decoded(installation, event)])
    assert FAILURE.encode() in plain, "what is searched is what the workflow knows"
    assert PLAIN.encode() not in plain, "settings are read by activities and do not travel"
    assert found(plain) == []


async def test_without_the_key_a_history_says_nothing(installation: Installation) -> None:
    raw = await Client.connect(installation.stack.temporal_address)
    id_ = package_workflow_id(installation.key(NAME))
    runs = [raw.get_workflow_handle(id_, run_id=one.run_id) for one in await installation.chain(NAME)]
    events_ = [event for run in runs for event in (await run.fetch_history()).events]
    kinds = {event.event_type for event in events_}
    assert EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED in kinds, "there is a failure that could tell something"
    text = b"".join(event.SerializeToString() for event in events_)
    for said in (*CANARIES, PLAIN, FAILURE, "settings.password", "the settings break"):
        assert said.encode() not in text, said
    description = (await runs[0].describe()).raw_description.SerializeToString()
    assert found(description) == []
    assert PLAIN.encode() not in description
    assert id_.encode() in description


async def test_neither_log_nor_status_nor_events_tell_a_secret(installation: Installation) -> None:
    log = installation.log.read_text()
    assert "ValidationFailed" in log
    assert found(log) == []
    obj = await installation.object(NAME)
    assert found(json.dumps(obj)) == []
    told = json.dumps(await events(installation, NAME))
    assert FAILURE in told
    assert found(told) == []


async def test_neither_queries_nor_the_command_line_tell_a_secret(installation: Installation) -> None:
    key = installation.key(NAME)
    for view in (
        await installation.lifecycles.status(key),
        await installation.lifecycles.queues(key),
        await installation.lifecycles.dump(key),
    ):
        assert found(view.model_dump_json()) == []
    for command in (["get", "-o", "yaml"], ["describe", NAME], ["dump", NAME], ["values", NAME]):
        output = windlass(installation, *command)
        assert NAME in output or command[0] == "values", command
        assert found(output) == [], command


def windlass(installation: Installation, command: str, *arguments: str) -> str:
    """Run a command against the installation; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "windlass", command, *arguments, "-n", installation.namespace],
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            **installation.stack.env,
            "WINDLASS_INSTALLATION": installation.name,
            "WINDLASS_KEYRING_FILE": str(installation.folder / "keyring.yaml"),
            "WINDLASS_DIGEST_KEY_FILE": str(installation.folder / "digest-key"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


async def decoded(installation: Installation, message: Message) -> list[Payload]:
    """Return all payloads of ``message`` as they are under the codec."""
    codec = converter_for(installation.client, package_workflow_id(installation.key(NAME))).payload_codec
    assert codec is not None
    encrypted = list(payloads(message))
    return list(await codec.decode(encrypted))
