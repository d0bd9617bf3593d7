from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.adapters.hooks.output import LINE_COST, MAX_LINE, TAIL_LINES, Budget, Capture, Lines, pump


async def fed(
    *chunks: bytes, budget: Budget | None = None, hidden: Sequence[str] = ()
) -> tuple[list[str], tuple[str, ...]]:
    taken: list[str] = []
    lines = Lines(taken.append, budget or Budget(), hidden)
    for chunk in chunks:
        await lines.feed(chunk)
    await lines.close()
    return taken, lines.tail


async def test_lines_are_joined_across_chunks_and_the_last_needs_no_end() -> None:
    taken, tail = await fed(b"one\r\ntw", b"o\n\n  \nthr", b"ee")
    assert taken == ["one", "two", "three"]
    assert tail == ("one", "two", "three")


async def test_control_characters_and_wrong_utf8_do_not_reach_the_log() -> None:
    taken, _ = await fed(b"\x1b[31mred\x00\x07\ttab\n\xff\n")
    assert taken == ["[31mred\ttab", "\N{REPLACEMENT CHARACTER}"]


async def test_a_long_line_is_cut_and_says_so() -> None:
    taken, _ = await fed(*[b"x" * 1000] * 40, b"\nnext\n")
    assert taken == ["x" * MAX_LINE + " … (line cut)", "next"]


async def test_the_budget_is_shared_and_once_used_up_nothing_more_is_logged() -> None:
    budget = Budget(3 * LINE_COST + 10)
    first, _ = await fed(b"a\nb\n", budget=budget)
    assert not budget.exceeded
    second, tail = await fed(b"c\nd\ne\n", budget=budget)
    assert (first, second) == (["a", "b"], ["c"])
    assert budget.exceeded
    assert tail == ("c", "d", "e")


async def test_the_tail_keeps_the_last_lines() -> None:
    _, tail = await fed("".join(f"{n}\n" for n in range(100)).encode())
    assert tail == tuple(str(n) for n in range(100 - TAIL_LINES, 100))


async def test_hidden_words_are_blotted_out_in_log_and_tail() -> None:
    taken, tail = await fed(b"Bearer abc.def", b".ghi!\n", hidden=("abc.def.ghi",))
    assert taken == ["Bearer …!"]
    assert tail == ("Bearer …!",)


async def test_other_work_goes_on_during_a_flood_of_lines() -> None:
    turns = []
    lines = Lines(lambda _: None, Budget())

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await lines.feed(b"y\n" * 5000)
    task.cancel()
    assert len(turns) >= 20


async def test_capture_keeps_up_to_its_limit() -> None:
    capture = Capture(5)
    reader = asyncio.StreamReader()
    reader.feed_data(b"12345")
    reader.feed_eof()
    await pump(reader, capture)
    assert (capture.content, capture.overflowed) == (b"12345", False)
    await capture.feed(b"6")
    assert (capture.content, capture.overflowed) == (b"12345", True)
