"""What worker and runner tell one another: one JSON object per packet of a UNIX socket (SOCK_SEQPACKET).

Contents travel in files beside the packet (SCM_RIGHTS), all of them made by the worker: one that holds the inputs of a
run one after another, one that takes its outputs, and the writing ends of stdout and stderr. Neither side trusts the
other: a packet is bounded, and every field is checked before it is used.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

MAX_PACKET: Final = 96 * 1024
"""Bytes of one packet; the kernel takes up to about 200 KiB at once (net.core.wmem_default)."""

MAX_OUTPUT: Final = 4 * 1024 * 1024
"""Bytes of one file written by a hook; one object of the API server has at most 1.5 MiB."""

FILES: Final = 4
"""Files beside a request: inputs, outputs, stdout, stderr."""

_MAX_NAME: Final = 64  # bytes of the name of a run's file; all are our own


class ProtocolError(Exception):
    """The other side sent something that is no message; the text says which field."""


class Limits(NamedTuple):
    """What one run may use.

    Attributes:
        memory: bytes of all its processes together, shared pages counted once where the kernel tells.
        disk: bytes in its folder.
        files: files and folders in its folder.
        processes: processes and threads at a time; with a user of its own per package, of all runs of the package.
    """

    memory: int = 512 << 20
    disk: int = 256 << 20
    files: int = 10_000
    processes: int = 256


class Config(NamedTuple):
    """How a runner is started; given as its only argument.

    Attributes:
        runs: folder below which it makes its own.
        packages: folders that hold packages; only what is below them is run.
        readable: further files and folders that hooks may read and execute.
        writable: folders beside its own that a hook may write to.
        limits: of each run.
        socket: path to listen on; empty if the connected socket is file descriptor 0.
    """

    runs: str
    packages: tuple[str, ...]
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    limits: Limits = Limits()
    socket: str = ""

    def encode(self) -> str:
        """Return the argument."""
        return json.dumps({**self._asdict(), "limits": self.limits._asdict()})

    @classmethod
    def decode(cls, text: str) -> Config:
        """Read the argument; it comes from whoever starts the runner, who is trusted."""
        raw = json.loads(text)
        paths = {name: tuple(raw[name]) for name in ("packages", "readable", "writable")}
        return cls(runs=raw["runs"], socket=raw["socket"], limits=Limits(**raw["limits"]), **paths)


class Input(NamedTuple):
    """One file for the hook: the variable that holds its path, its name, its size in bytes."""

    variable: str
    name: str
    size: int


class Request(NamedTuple):
    """One process to run.

    Attributes:
        number: names the run in later messages.
        package: whose hook it is; runs of one package share a user.
        root: the package's folder.
        cwd: where it starts.
        argv: the program, by its path, and its arguments.
        env: its environment, but for `inputs`, `outputs`, HOME and TMPDIR.
        inputs: files to make for it.
        outputs: variables and names of files to make, empty, and to bring back.
        time_limit: seconds.
        timeout_grace: seconds between SIGTERM and SIGKILL after the time limit.
        cancel_grace: the same after a cancel, and for what it leaves running.
    """

    number: int
    package: str
    root: str
    cwd: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, str], ...]
    time_limit: float
    timeout_grace: float
    cancel_grace: float


class Output(NamedTuple):
    """How an output file was found: its size in bytes, or what is wrong with it."""

    size: int
    problem: str = ""


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
        status: exit status, or the signal's number made negative.
        duration: seconds.
        timed_out: it was ended at its time limit.
        left_behind: processes that it had started had to be ended after it.
        over: the limit (a name of `Limits`) beyond which it was ended, else empty.
        outputs: of its output files, in the order of the request.
    """

    status: int
    duration: float
    timed_out: bool
    left_behind: bool
    over: str
    outputs: tuple[Output, ...]


def send(channel: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Send one packet.

    Raises:
        ProtocolError: it would be too large.
        OSError: the other side is gone; BlockingIOError, it does not read.
    """
    packet = json.dumps(message).encode()
    if len(packet) > MAX_PACKET:
        raise ProtocolError(f"a message of {len(packet)} bytes")
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    channel.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Take one packet that is there; None at the end. Files that are not expected are closed.

    Raises:
        ProtocolError: it is no JSON object, too large, or carries something else than files.
        OSError: the other side is gone; BlockingIOError, there is no packet.
    """
    space = socket.CMSG_SPACE(FILES * array.array("i").itemsize)
    flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    packet, ancillary, told, _ = channel.recvmsg(MAX_PACKET + 1, space, flags)
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    if not packet and not files:
        return None
    try:
        return _parsed(packet, whole=not told & (socket.MSG_TRUNC | socket.MSG_CTRUNC)), list(files)
    except ProtocolError:
        for file in files:
            os.close(file)
        raise


def _parsed(packet: bytes, *, whole: bool) -> dict[str, Any]:
    if not whole:
        raise ProtocolError("a packet that is too large")
    try:
        message = json.loads(packet)
    except (ValueError, RecursionError):
        raise ProtocolError("a packet that is no JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError("a packet that is no object")
    return cast("dict[str, Any]", message)


def encode_request(request: Request) -> dict[str, Any]:
    """Return the message for a request."""
    return {"op": "run", **request._asdict()}


def decode_request(raw: Mapping[str, Any]) -> Request:
    """Check a request.

    Raises:
        ProtocolError: it is not one.
    """
    env = raw.get("env")
    if not isinstance(env, dict):
        raise ProtocolError("env")
    variables = cast("dict[str, Any]", env)
    argv = tuple(_text(word, "argv") for word in _items(raw, "argv"))
    if not argv:
        raise ProtocolError("argv")
    return Request(
        number=_count(raw.get("number"), "number"),
        package=_text(raw.get("package"), "package"),
        root=_text(raw.get("root"), "root"),
        cwd=_text(raw.get("cwd"), "cwd"),
        argv=argv,
        env={_variable(name): _text(value, "env") for name, value in variables.items()},
        inputs=tuple(_input(item) for item in _items(raw, "inputs")),
        outputs=tuple(_output_name(item) for item in _items(raw, "outputs")),
        time_limit=_seconds(raw, "time_limit"),
        timeout_grace=_seconds(raw, "timeout_grace"),
        cancel_grace=_seconds(raw, "cancel_grace"),
    )


def encode_ended(number: int, ended: Ended) -> dict[str, Any]:
    """Return the message that says how run ``number`` ended."""
    return {"op": "ended", "number": number, **ended._asdict()}


def decode_ended(raw: Mapping[str, Any], outputs: int) -> Ended:
    """Check how a run ended that has ``outputs`` output files.

    Raises:
        ProtocolError: it says something else.
    """
    found = tuple(_output(item) for item in _items(raw, "outputs"))
    status, over = raw.get("status"), raw.get("over")
    if len(found) != outputs:
        raise ProtocolError("outputs")
    if not isinstance(status, int) or not -64 <= status <= 255:
        raise ProtocolError("status")
    if over not in ("", *Limits._fields):
        raise ProtocolError("over")
    return Ended(
        status=status,
        duration=_seconds(raw, "duration"),
        timed_out=raw.get("timed_out") is True,
        left_behind=raw.get("left_behind") is True,
        over=over,
        outputs=found,
    )


def _items(raw: Mapping[str, Any], name: str) -> list[Any]:
    value = raw.get(name)
    if not isinstance(value, list):
        raise ProtocolError(name)
    return cast("list[Any]", value)


def _pair(value: Any, length: int, name: str) -> list[Any]:
    if not isinstance(value, list) or len(cast("list[Any]", value)) != length:
        raise ProtocolError(name)
    return cast("list[Any]", value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ProtocolError(name)
    return value


def _variable(value: str) -> str:
    if not value or "=" in value or "\0" in value:
        raise ProtocolError("env")
    return value


def _file_name(value: Any) -> str:
    name = _text(value, "name")
    if not 0 < len(name) <= _MAX_NAME or "/" in name or name.startswith("."):
        raise ProtocolError("name")
    return name


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise ProtocolError(name)
    return value


def _seconds(raw: Mapping[str, Any], name: str) -> float:
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10_000_000:
        raise ProtocolError(name)
    return float(value)


def _input(value: Any) -> Input:
    variable, name, size = _pair(value, 3, "inputs")
    return Input(_variable(_text(variable, "inputs")), _file_name(name), _count(size, "inputs"))


def _output_name(value: Any) -> tuple[str, str]:
    variable, name = _pair(value, 2, "outputs")
    return _variable(_text(variable, "outputs")), _file_name(name)


def _output(value: Any) -> Output:
    size, problem = _pair(value, 2, "outputs")
    if _count(size, "outputs") > MAX_OUTPUT:
        raise ProtocolError("outputs")
    return Output(size, _text(problem, "outputs")[:200])
