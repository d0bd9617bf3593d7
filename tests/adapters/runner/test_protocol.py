from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from windlass.adapters.runner.protocol import (
    MAX_PACKET,
    Config,
    Ended,
    Input,
    Limits,
    Output,
    ProtocolError,
    Request,
    decode_ended,
    decode_request,
    encode_ended,
    encode_request,
    receive,
    send,
)

REQUEST = Request(
    number=7,
    package="prod.web",
    root="/packages/a",
    cwd="/packages/a/hooks",
    argv=("/packages/a/hooks/x.sh",),
    env={"PATH": "/bin"},
    inputs=(Input("VALUES_PATH", "values.json", 2),),
    outputs=(("METRICS_PATH", "metrics.json"),),
    time_limit=30.0,
    timeout_grace=3.0,
    cancel_grace=1.0,
)
ENDED = Ended(status=-9, duration=0.5, timed_out=False, left_behind=True, over="memory", outputs=(Output(3, ""),))

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def over_the_wire(message: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(message))


def test_messages_come_back_as_they_were() -> None:
    assert decode_request(over_the_wire(encode_request(REQUEST))) == REQUEST
    assert decode_ended(over_the_wire(encode_ended(7, ENDED)), 1) == ENDED
    config = Config(runs="/runs", packages=("/a", "/b"), writable=("/c",), limits=Limits(memory=5))
    assert Config.decode(config.encode()) == config


@given(field=st.sampled_from(Request._fields), value=anything)
def test_a_hostile_request_is_refused_or_well_formed(field: str, value: Any) -> None:
    with contextlib.suppress(ProtocolError):
        request = decode_request({**over_the_wire(encode_request(REQUEST)), field: value})
        assert all("/" not in one.name and not one.name.startswith(".") and one.size >= 0 for one in request.inputs)
        assert all("/" not in name for _, name in request.outputs)
        assert all("\0" not in text for text in (request.root, request.cwd, *request.argv, *request.env.values()))
        assert 0 <= request.time_limit < 1e7


@given(field=st.sampled_from(Ended._fields), value=anything)
def test_a_hostile_answer_is_refused_or_well_formed(field: str, value: Any) -> None:
    with contextlib.suppress(ProtocolError):
        ended = decode_ended({**over_the_wire(encode_ended(7, ENDED)), field: value}, 1)
        assert isinstance(ended.status, int)
        assert 0 <= ended.outputs[0].size <= 4 * 1024 * 1024
        assert ended.over in ("", *Limits._fields)


@pytest.mark.parametrize("packet", [b"{", b"[]", b"\xff", b"[" * 50_000, b"x" * (MAX_PACKET + 1)])
def test_what_is_no_message_is_refused_and_its_files_are_closed(packet: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        before = len(list(Path("/proc/self/fd").iterdir()))
        socket.send_fds(theirs, [packet], [0, 1])
        with pytest.raises(ProtocolError):
            receive(ours)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_message_that_is_too_large_is_not_sent() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, pytest.raises(ProtocolError):
        send(ours, {"op": "x" * MAX_PACKET})


def test_the_runner_imports_nothing_heavy() -> None:
    source = Path(windlass.__file__).parent.parent
    script = (
        f"import sys; sys.path.append({str(source)!r}); import windlass.adapters.runner.server; "
        "print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "pydantic", "subprocess", "threading", "ssl", "structlog", "uvloop", "temporalio"}
    ours = {name for name in loaded if name.startswith("windlass.")}
    assert {name for name in ours if not name.startswith("windlass.adapters")} == set()
