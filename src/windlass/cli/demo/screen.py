"""Shows the demo: a live tree on a terminal, plain lines with the elapsed seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from windlass.cli.demo.model import Act, Check, Line, Mark, Show, StepLine, Subject

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text
    from rich.tree import Tree

SIGNS: Final = {Mark.RUNNING: "…", Mark.DONE: "✓", Mark.FAILED: "✗", Mark.LOST: "✗"}
COLOURS: Final = {Mark.RUNNING: "yellow", Mark.DONE: "green", Mark.FAILED: "red", Mark.LOST: "magenta"}
READY: Final = {"True": Mark.DONE, "False": Mark.RUNNING, "Unknown": Mark.RUNNING}
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND: Final = 8


@contextmanager
def screen(console: Console, output: TextIO) -> Generator[Show]:
    """Yield what shows the story: on ``console`` if it is a terminal, else as lines on ``output``."""
    began = time.monotonic()
    if not console.is_terminal:
        yield lambda act, line: _plain(output, began, act, line)
        return
    from rich.live import Live

    current: list[Act] = []

    def picture() -> Tree | str:
        return tree(current[0], time.monotonic()) if current else ""

    with Live(
        console=console, get_renderable=picture, refresh_per_second=FRAMES_PER_SECOND, transient=True
    ) as live:  # what an act leaves behind is printed above, so that it scrolls as usual output does

        def show(act: Act | None, line: Line) -> None:
            if isinstance(line, Act):
                current[:] = [] if line.ended else [line]
                if line.ended:
                    live.console.print(tree(line, line.ended))
            elif act is None:
                live.console.print(str(line), highlight=False)

        yield show


def tree(act: Act, now: float) -> Tree:
    """Return one act as a tree; ``now`` is in seconds of the monotonic clock."""
    from rich.text import Text
    from rich.tree import Tree

    mark = Mark.FAILED if act.failed else Mark.DONE if act.ended else Mark.RUNNING
    title = Text.assemble((_sign(mark, now), COLOURS[mark]), " ", (act.title, "bold"))
    title.append(f"  {(act.ended or now) - act.began:.1f} s", "dim")
    made = Tree(title, guide_style="dim")
    for subject in act.subjects.values():
        if subject.head or subject.steps:
            branch = made.add(_head(subject))
            if subject.steps:
                branch.add(_Steps(subject.steps, now))
    for entry in act.entries:
        made.add(Text(entry, "cyan") if isinstance(entry, str) else _check(entry, now))
    return made


def _head(subject: Subject) -> Text:
    from rich.text import Text

    colour = COLOURS[READY.get(subject.ready, Mark.RUNNING)]
    head = Text.assemble((subject.name, "bold"), "  ", (subject.head, colour))
    if subject.release:
        head.append(f"  {subject.release}", "dim")
    return head


class _Steps:
    """Steps beside each other, as many as fit on a line: text would wrap between a step's sign and its name."""

    def __init__(self, steps: list[StepLine], now: float) -> None:
        self._steps = steps
        self._now = now

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console  # rich's protocol passes it by this name
        from rich.text import Text

        line = Text()
        for step in self._steps:
            word = Text(f"{_sign(step.mark, self._now)} {step_text(step)}", COLOURS[step.mark])
            if line and line.cell_len + 2 + word.cell_len > options.max_width:
                yield line
                line = Text()
            line = Text.assemble(line, "  ", word) if line else word
        yield line


def step_text(step: StepLine) -> str:
    """Return a step in a few words: its name, the hook it ran, what became of it, how long it took."""
    text = f"{step.step} {step.detail}" if step.detail.startswith("hooks/") else step.step
    if step.mark is Mark.LOST:
        return f"{text} (worker lost)"
    return f"{text} {step.took:.1f} s" if step.took >= 0.05 else text


def _check(check: Check, now: float) -> Text:
    from rich.text import Text

    line = Text.assemble((_sign(check.mark, now), COLOURS[check.mark]), " ", check.text)
    if check.seen and check.mark is not Mark.DONE:
        line.append(f": {check.seen}", "dim" if check.mark is Mark.RUNNING else "red")
    return line


def _sign(mark: Mark, now: float) -> str:
    return FRAMES[int(now * FRAMES_PER_SECOND) % len(FRAMES)] if mark is Mark.RUNNING else SIGNS[mark]


def _plain(output: TextIO, began: float, act: Act | None, line: Line) -> None:
    output.writelines(f"{time.monotonic() - began:6.1f} s  {text}\n" for text in plain(act, line))
    output.flush()


def plain(act: Act | None, line: Line) -> list[str]:
    """Return what has changed as lines of text; nothing for checks that are still looked for."""
    match line:
        case Act():
            return [] if line.ended else ["", f"== {line.title}"]
        case Check():
            if line.mark is Mark.RUNNING:
                return []
            seen = f": {line.seen}" if line.seen and line.mark is Mark.FAILED else ""
            return [f"{SIGNS[line.mark]} check: {line.text}{seen}"]
        case Subject():
            release = f"  {line.release}" if line.release else ""
            return [f"  {line.name:<6} {line.head}{release}"]
        case (name, step):
            return [f"  {name:<6} {SIGNS[step.mark]} {step_text(step)}"]
        case _:
            return [line if act is None else f"  {line}"]
