"""Finds the command, loads only its module, runs it, and turns errors into one line and an exit code.

Exit codes: 0 done; 1 failed (standard error says what, where, and what to do); 2 wrong usage; 130 interrupted.
The list of commands is a table of text so that `windlass --help` loads nothing: it is done in under 150 ms.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn, cast

from windlass.cli.registry import COMMANDS, help_text, load, program

if TYPE_CHECKING:
    from windlass.domain.errors import WindlassError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_UNTOLD: Final = 2
TELLS_BY_EXIT: Final = frozenset({"diff"})
"""Commands whose exit code 1 is an answer; they fail with `EXIT_UNTOLD`, as diff(1) does."""

DEBUG: Final = "WINDLASS_DEBUG"

_BRIDGE: Final = "temporalio.bridge.temporal_sdk_bridge"

COMPLETE: Final = "__complete"
"""What a shell calls at TAB; see `windlass.cli.completion`."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line as a program does, and end the process.

    Where Temporal's library was loaded, the interpreter is not taken down: a thread of the library that answers late
    (a request that was given up) would crash it, and the exit code with it.
    """
    try:
        run(arguments)
    except SystemExit as end:
        if _BRIDGE not in sys.modules or not isinstance(end.code, int | None):
            raise
        with contextlib.suppress(OSError):  # whoever read them has gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code or 0)


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    try:
        try:
            _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            # Now, not while the interpreter ends: a broken pipe could not be handled there any more.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`windlass get | head`); nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)


def _dispatch(args: list[str]) -> NoReturn:
    debug = "--debug" in args or bool(os.environ.get(DEBUG))
    args = [argument for argument in args if argument != "--debug"]
    if not args or args[0] in {"-h", "--help", "help"}:
        sys.stdout.write(help_text() + "\n")
        sys.exit(0)
    if args[0] == "--version":
        args[0] = "version"
    name = args[0]
    if name == COMPLETE:
        from windlass.cli.completion import write_answer

        write_answer(args[1:])
        sys.exit(0)
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `windlass {close[0]}`?" if close else "see `windlass --help`"
        _fail(f"there is no command {name!r}", hint, EXIT_USAGE)
    _invoke(name, args[1:], debug=debug)


def _invoke(name: str, args: list[str], *, debug: bool) -> NoReturn:
    from windlass.domain.errors import WindlassError

    try:
        load(name)(args=args, prog_name=f"{program()} {name}")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except (WindlassError, ExceptionGroup) as error:
        ours = _ours(error)
        if debug or ours is None:
            raise
        _fail(ours.message, ours.hint, EXIT_UNTOLD if name in TELLS_BY_EXIT else EXIT_FAILED)
    sys.exit(0)


def _ours(error: Exception) -> WindlassError | None:
    """Return the first error of ours; task groups raise several at once."""
    from windlass.domain.errors import WindlassError

    if isinstance(error, ExceptionGroup):
        nested = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for one in nested if (found := _ours(one)) is not None), None)
    return error if isinstance(error, WindlassError) else None


def _fail(message: str, hint: str, code: int) -> NoReturn:
    sys.stderr.write(f"windlass: {message}\n")
    if hint:
        # Adapters speak to a worker, which goes on by itself; a command has ended.
        sys.stderr.write(f"  {hint.replace('it is tried again', 'try again')}\n")
    sys.exit(code)
