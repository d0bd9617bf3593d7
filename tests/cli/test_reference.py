"""Examples and docs/cli.md hold what the commands take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from windlass.cli.examples import EXAMPLES
from windlass.cli.reference import page
from windlass.cli.registry import COMMANDS, load

PAGE: Final = Path(__file__).parents[2] / "docs" / "cli.md"


def commands() -> Iterator[str]:
    for name in COMMANDS:
        subs: dict[str, Any] = getattr(load(name), "commands", None) or {}
        yield from (f"{name} {sub}" for sub in subs) if subs else [name]


def test_every_command_has_examples_and_every_example_a_command() -> None:
    assert sorted(EXAMPLES) == sorted(commands())


def calls(line: str) -> list[list[str]]:
    """The calls of windlass in a line of a shell."""
    pieces = [piece.strip() for piece in re.split(r"[|>)]|\$\(", line)]
    return [shlex.split(piece)[1:] for piece in pieces if piece.startswith("windlass ")]


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line, _ in lines])
def test_every_example_is_taken(line: str) -> None:
    [[name, *words]] = calls(line)
    command = load(name)
    while subs := getattr(command, "commands", None):
        command = subs[words.pop(0)]
    assert command.make_context(name, words).params is not None


def test_an_example_that_is_not_taken_would_be_seen() -> None:
    with pytest.raises(Exception, match="--nonsense"):
        load("get").make_context("get", ["--nonsense"])


def test_the_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m windlass.cli.reference > docs/cli.md"


def test_the_page_says_nothing_of_this_machine() -> None:
    assert str(Path.home()) not in page()
    assert str(PAGE.parents[1]) not in page()
