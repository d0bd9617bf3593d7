"""The command line: help, wrong usage, failures in one line, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Final, NoReturn

import pytest

from windlass import __version__
from windlass.cli.main import DEBUG, run
from windlass.cli.registry import COMMANDS
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError

HEAVY: Final = {"temporalio", "kubernetes", "pydantic", "typer", "rich", "yaml", "structlog", "aiohttp", "asyncio"}
LIMIT: Final = 30


def program(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the real program."""
    command = [sys.executable, "-m", "windlass", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)


def exit_code(*arguments: str) -> int:
    """Run the command line in this process; return what it exits with."""
    with pytest.raises(SystemExit) as caught:
        run(list(arguments))
    assert isinstance(caught.value.code, int)
    return caught.value.code


def command_that(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Put one more command, `act`, on the command line."""

    def command() -> None:
        act()

    module = types.ModuleType("windlass.cli.acting")
    module.__dict__["command"] = command
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "act", ("acting", "command", "acts"))


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> NoReturn:
        raise error

    return act


# -- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command_once(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line.split()[0] for line in lines if line.startswith("  ")]
    assert told == list(COMMANDS)
    assert max(map(len, lines)) <= 80
    assert {"up", "apply", "get", "retry", "worker", "version"} <= set(told)


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import json, sys\n"
        "from windlass.cli.main import run\n"
        "try: run(['--help'])\n"
        "except SystemExit: sys.stderr.write(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT, check=True)
    loaded = {name.split(".")[0] for name in json.loads(done.stderr)}
    assert "windlass" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0
    told = capsys.readouterr().out
    assert f"Usage: windlass {name}" in told
    assert "--help" in told


@pytest.mark.parametrize("command", ["get", "describe", "apply", "dump", "retry", "values", "delete", "demo"])
def test_help_of_a_command_loads_no_client(command: str) -> None:
    script = (
        "import json, sys\n"
        "from windlass.cli.main import run\n"
        "try: run(sys.argv[1:])\n"
        "except SystemExit: sys.stderr.write(json.dumps(sorted(sys.modules)))\n"
    )
    arguments = [sys.executable, "-c", script, command, "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT, check=True)
    assert done.stdout.startswith(f"Usage: windlass {command} [OPTIONS]")
    assert not {"pydantic", "temporalio", "aiohttp", "kubernetes"} & set(json.loads(done.stderr))


# -- wrong usage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "hint"), [("aply", "did you mean `windlass apply`?"), ("xyzzy", "see `windlass --help`")]
)
def test_an_unknown_command_is_wrong_usage(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(typed) == 2
    assert capsys.readouterr().err == f"windlass: there is no command '{typed}'\n  {hint}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["get", "--nope"], "--nope"),
        (["get", "-o", "xml"], "'table', 'wide', 'json', 'yaml'"),
        (["values", "web", "-o", "table"], "yaml"),
        (["describe"], "Missing argument"),
        (["apply"], "--file"),
        (["pause", "web"], "--reason"),
        (["get", "--watch", "-o", "json"], "--watch"),
        (["worker", "--role", "cook"], "cook"),
    ],
)
def test_wrong_usage_says_what(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*arguments) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.out == ""


# -- failures --------------------------------------------------------------------------------------------------------

NOT_FOUND: Final = PermanentError(Reason.PACKAGE_NOT_FOUND, "there is no web", hint="make one", actor=Actor.USER)
BUSY: Final = TransientError(Reason.API_UNAVAILABLE, "the API is busy")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NOT_FOUND, "windlass: there is no web\n  make one\n"),
        (BUSY, "windlass: the API is busy\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("inner", [NOT_FOUND])]), "windlass: there is no web\n  make one\n"),
    ],
)
def test_a_failure_is_one_line_and_what_to_do(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_that(monkeypatch, raising(error))
    assert exit_code("act") == 1
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("place", ["argument", "environment"])
def test_debug_adds_the_trace(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, raising(NOT_FOUND))
    if place == "environment":
        monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(PermanentError):
        run(["act", "--debug"] if place == "argument" else ["act"])


def test_the_program_shows_the_trace_with_debug_and_never_without() -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "WINDLASS_DATA": "/nonexistent"}
    plain, debug = program("get", env=environ), program("get", "--debug", env=environ)
    assert (plain.returncode, debug.returncode) == (1, 1)
    assert plain.stderr.startswith("windlass: no cluster: ")
    assert len(plain.stderr.splitlines()) == 2
    assert "Traceback" in debug.stderr
    assert "no cluster: " in debug.stderr


def test_the_demo_says_where_its_packages_should_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("demo", "--packages", "/nonexistent/packages") == 1
    assert "/nonexistent/packages" in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, raising(ExceptionGroup("tasks", [KeyError("bug")])))
    with pytest.raises(ExceptionGroup):
        run(["act"])


def test_an_interruption_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    command_that(monkeypatch, raising(KeyboardInterrupt()))
    assert exit_code("act") == 130


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["version", "-o", "json"]])
def test_a_reader_that_has_seen_enough_is_no_trouble(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "windlass", *arguments]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_version_is_a_flag_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["windlass", __version__]
    assert exit_code("version", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["windlass"] == __version__


@pytest.mark.parametrize(("loads", "torn"), [("import temporalio.client", False), ("", True)], ids=["temporal", "none"])
@pytest.mark.parametrize(("word", "code"), [("version", 0), ("nonsense", 2)])
def test_a_command_that_has_loaded_temporals_library_leaves_at_once(
    loads: str, word: str, code: int, *, torn: bool
) -> None:
    # Threads of that library that answer late have crashed the interpreter while it was taken down.
    program = f"""
import atexit, sys
{loads or "pass"}
from windlass.cli import main
atexit.register(print, "torn down")
sys.argv = ["windlass", {word!r}]
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code
    assert ("windlass" in ended.stdout) if code == 0 else ("there is no command 'nonsense'" in ended.stderr)
    assert ("torn down" in ended.stdout) == torn
