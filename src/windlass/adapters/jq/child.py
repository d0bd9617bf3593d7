"""The warm child process that runs filters: ``python -m windlass.adapters.jq.child PARENT_PID``.

A request is two lines: the filter as JSON text, and the value; an empty second line asks to compile only. The reply is
one line, an object with ``results``, or with ``invalid`` (the filter is wrong), ``failed`` (wrong for this value) or
``excess`` (too many results) and a text. A loop in a filter cannot be interrupted, so the child is killed for it.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import jq

from windlass.adapters.processes.leash import die_with_parent
from windlass.adapters.processes.warm_child import READY, claim_stdout

MAX_RESULTS: Final = 10_000
"""Results of one filter on one value."""

MAX_MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of address space; beyond, the library ends the child. An object of the API server has at most 1.5 MiB."""

COMPILED: Final = 256
"""Filters kept compiled; compiling one takes 1.6 ms, more than most runs."""


# The library ships no types.
_compile: Callable[[str], Any] = lru_cache(COMPILED)(getattr(jq, "compile"))  # noqa: B009 - unseen by the type checker


def answer(program: str, value: str) -> dict[str, Any]:
    """Run ``program`` on ``value``, JSON text, or only compile it when that is empty."""
    try:
        compiled = _compile(program)
    except ValueError as error:
        return {"invalid": str(error)}
    if not value:
        return {"results": []}
    try:
        results: list[Any] = list(islice(compiled.input_text(value), MAX_RESULTS + 1))
    except ValueError as error:
        return {"failed": str(error)}
    return {"results": results} if len(results) <= MAX_RESULTS else {"excess": f"more than {MAX_RESULTS} results"}


def _confine() -> None:
    """Take away what a filter has no use for: ``import`` would read any JSON file this user can read."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve requests until stdin ends."""
    die_with_parent(int(sys.argv[1]))
    replies = claim_stdout()
    answer(".", "{}")  # loads the builtins of the language, so that the first request finds them loaded
    _confine()
    replies.write(READY)
    requests = sys.stdin.buffer
    while program := requests.readline():
        reply = answer(json.loads(program), requests.readline().decode().strip())
        replies.write(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main()
