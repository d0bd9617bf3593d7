"""Reads hostile documents; run as a program, since what it tests may end the process.

Prints how many documents were read and refused, and the most memory the process took.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from windlass.domain.text.documents import (
    DocumentError,
    Limits,
    parse_answer,
    parse_document,
    parse_helm,
    parse_json,
    parse_manifest,
)
from windlass.domain.text.yaml_places import line_of

LIMITS: Final = Limits(size=1 << 20, nodes=50_000)
DEEP: Final = (3, 150, 250, 1_000, 30_000)
LARGE: Final = 300_000

type Make = Callable[[random.Random], str | bytes]


def _deep(dice: random.Random) -> str:
    levels = dice.choice(DEEP)
    one = dice.choice(["[", "{a: ", '{"a":', "- ", "? ", "[[", "{? ", "&a [", "!!seq [", "- - ", "a:\n" + " " * 3])
    return one * min(levels, LARGE // len(one)) + dice.choice(["", "x", "]", "}" * levels, "]" * levels])


def _stairs(dice: random.Random) -> str:
    return "".join(" " * level + "a:\n" for level in range(dice.choice((10, 150, 300, 700))))


def _aliases(dice: random.Random) -> str:
    width, height = dice.choice((2, 10, 100)), dice.choice((2, 10, 60))
    link = dice.choice(["[{}]", "{{<<: [{}]}}", "{{a: [{}]}}"])
    lines = ["a0: &a0 " + dice.choice(["[x]", "{x: 1}", "x" * 1000, "~"])]
    lines += [f"a{n}: &a{n} " + link.format(", ".join([f"*a{n - 1}"] * width)) for n in range(1, height)]
    return "\n".join(lines)


def _circle(dice: random.Random) -> str:
    return dice.choice(["&a [*a]", "&a {b: *a}", "a: &a\n  <<: *a", "&a [&b [*a, *b]]", "*a", "&a *a", "{*a : *a}"])


def _long(dice: random.Random) -> str:
    piece = dice.choice(
        ["x", "x ", "x\n", "'", '"', "\\", "9", ".", "_9", "# ", "\t", "é", "😀", "\u2028", "&a ", "*a ", "!x "]
    )
    start = dice.choice(
        ["", "a: ", 'a: "', "a: '", "a: |\n  ", "a: >\n  ", "- ", "!!int ", "!!binary ", "0x", '["', "? "]
    )
    return start + piece * dice.choice((10, 1_000, LARGE // 4)) + dice.choice(["", "'", '"', '"]'])


def _many(dice: random.Random) -> str:
    piece = dice.choice(
        [
            "---\n",
            "--- a\n",
            "...\n",
            "[]",
            "{}",
            '""',
            "1 ",
            "a: 1\n",
            "- x\n",
            "? a\n",
            "null ",
            "[],",
            "? \n",
            ",",
            ":",
            "%X y\n",
        ]
    )
    return dice.choice(["", "[", "{", "---\n"]) + piece * dice.choice((10, 5_000, LARGE // 8))


def _directives(dice: random.Random) -> str:
    names = range(dice.choice((1, 60, 20_000)))
    return "".join(f"%TAG !{n}! tag:x{n},2000:\n" for n in names) + "---\n!1!x y\n"


def _escapes(dice: random.Random) -> str:
    return (
        '{"a": "\\' + dice.choice(["ud800", "u12", "xZZ", "U00110000", "q", "", "ud83d\\ude00", "/", "0", "N"]) + '"}'
    )


def _scalars(dice: random.Random) -> str:
    letters = "0123456789abxoeEnN_.+-:~<=yY!&*|>%@`\"'#[]{}, "
    values = ("".join(dice.choices(letters, k=dice.randrange(12))) for _ in range(dice.randrange(40)))
    return "\n".join(dice.choice(["k{}: {}", "- {1}", "{1}: {0}"]).format(n, value) for n, value in enumerate(values))


def _bytes(dice: random.Random) -> bytes:
    text = _scalars(dice)
    mark = dice.choice([b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff\xfe\x00\x00"])
    raw = bytearray(text.encode(dice.choice(["utf-8", "utf-16-le", "utf-16-be", "utf-32"])))
    for _ in range(dice.randrange(4)):
        raw.insert(dice.randrange(len(raw) + 1), dice.randrange(256))
    return mark + bytes(raw)


def _mutated(dice: random.Random) -> str:
    text = json.dumps(
        {"kind": "List", "items": [{"kind": "A", "metadata": {"name": "x", "n": 1.5e3}}] * dice.randrange(1, 9)}
    )
    for _ in range(dice.randrange(1, 6)):
        place = dice.randrange(len(text))
        text = (
            text[:place]
            + dice.choice(["[", "]", "{", "}", '"', "\\", ",", ":", "\n", "\x00", "\ud800", "&a "])
            + text[place + dice.randrange(3) :]
        )
    return text


KINDS: Final[tuple[tuple[int, Make], ...]] = (
    (3, _deep),
    (1, _stairs),
    (2, _aliases),
    (2, _circle),
    (2, _long),
    (1, _many),
    (1, _directives),
    (10, _escapes),
    (40, _scalars),
    (20, _bytes),
    (20, _mutated),
)
READERS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda text: parse_document(text, LIMITS),
    lambda text: parse_helm(text, LIMITS),
    lambda text: parse_json(text, LIMITS),
    lambda text: parse_answer(text, LIMITS),
    lambda text: parse_manifest(text if isinstance(text, str) else text.decode(errors="surrogateescape"), LIMITS),
    lambda text: parse_helm(text, LIMITS, wanted=(frozenset({"a0", "b"}),)),
    lambda text: line_of(text, ["a", "a", "0"]),
)


def main(count: int, seed: int) -> None:
    """Read ``count`` documents, each in one of the ways."""
    dice = random.Random(seed)  # noqa: S311 - it makes test data
    makers, weights = [make for _, make in KINDS], [weight for weight, _ in KINDS]
    read = refused = 0
    for number in range(count):
        text = dice.choices(makers, weights)[0](dice)
        try:
            found = READERS[number % len(READERS)](text)
        except DocumentError:
            refused += 1
        else:
            json.dumps(found, allow_nan=False).encode()  # plain, and no deeper than others can walk
            read += 1
    status = Path("/proc/self/status").read_text()  # resource.getrusage counts the parent before exec, too
    most = int(status.partition("VmHWM:")[2].split()[0])
    sys.stdout.write(json.dumps({"read": read, "refused": refused, "megabytes": most // 1024}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
