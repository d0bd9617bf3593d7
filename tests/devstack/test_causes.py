"""Deaths in words."""

from __future__ import annotations

import signal

import pytest

from windlass.devstack.causes import cause, death


@pytest.mark.parametrize(
    ("code", "line", "says"),
    [
        (1, "listen tcp 127.0.0.1:2379: bind: address already in use", "port is taken"),
        (1, "failed to listen on 127.0.0.1:6443: listen tcp: bind: Address already in use", "port is taken"),
        (2, "open /x/member/snap/db: permission denied", "may not read or write"),
        (1, "write /x/db: no space left on device", "disk is full"),
        (1, "sqlite: database or disk is full (13)", "disk is full"),
        (1, "walpb: crc mismatch: expected: 1 computed: 2", "data is damaged"),
        (1, "database disk image is malformed (11)", "data is damaged"),
        (1, "file is not a database (26)", "data is damaged"),
        (1, "database is locked (5) (SQLITE_BUSY)", "has its data open"),
        (1, "accept tcp: too many open files", "open more files"),
        (2, "fatal error: runtime: out of memory", "too little memory"),
        (1, "Error: unknown flag: --frontend", "another version"),
        (1, "x509: certificate has expired or is not yet valid", "certificate has expired"),
        (-signal.SIGKILL, "all is well", "somebody killed it"),
        (-signal.SIGSEGV, "all is well", "crashed"),
        (-signal.SIGKILL, "write: no space left on device", "disk is full"),
        (127, "", "cannot be executed"),
    ],
)
def test_known_causes(code: int, line: str, says: str) -> None:
    found = cause(code, ["starting", line, "goodbye"])
    assert found is not None
    assert says in found.text


def test_memory_is_blamed_only_where_the_kernel_has_killed_for_it() -> None:
    found, blamed = cause(-signal.SIGKILL, []), cause(-signal.SIGKILL, [], out_of_memory=True)
    assert found is not None
    assert blamed is not None
    assert ("memory" in found.text + found.advice, "memory" in blamed.text) == (False, True)


@pytest.mark.parametrize(("code", "lines"), [(1, []), (7, ["something else"]), (-signal.SIGUSR1, ["x"])])
def test_what_is_not_known_is_not_guessed(code: int, lines: list[str]) -> None:
    assert cause(code, lines) is None


def test_the_last_known_line_counts() -> None:
    found = cause(1, ["bind: address already in use", "no space left on device", "shutting down"])
    assert found is not None
    assert found.text == "the disk is full"


def test_a_death_says_how_how_often_why_what_to_do_and_the_log() -> None:
    lines = ["begin", "bind: address already in use"]
    told = death("etcd", "exited with code 1", cause(1, lines), lines, shown=1, again=4).splitlines()
    assert told[0] == "etcd exited with code 1, 4 times in a row: its port is taken by another program"
    assert told[1].startswith("what to do: ")
    assert told[2:] == ["the end of its log:", lines[-1]]
    assert (
        death("etcd", "exited with code 1", None, ["x"], shown=9, again=1)
        == "etcd exited with code 1; the end of its log:\nx"
    )
