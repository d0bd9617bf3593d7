"""Writes docs/cli.md from the commands themselves: ``python -m windlass.cli.reference > docs/cli.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from windlass.cli.registry import GROUPS, help_text, load

WIDTH: Final = 100
"""Columns of the help texts in the page."""

_HEAD: Final = f"""\
# Commands

Written by `python -m windlass.cli.reference`; a test compares this page with the commands.

`kubectl windlass COMMAND` is the same as `windlass COMMAND` where both programs are on the `PATH`. Completion, with
the names of packages and namespaces, for bash, zsh and fish: `windlass completion --help`; with kubectl >= 1.26 it also
works behind `kubectl windlass`.

Commands find cluster, Temporal and installation in this order: options, environment ([overview.md](overview.md)), the
stack that runs in the data directory, `~/.kube/config`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed; standard error says in one line what is wrong and where, and in a second one what to do |
| 2 | wrong usage |
| 1, 2 of `diff` | something differs; it failed |
| 130 | interrupted by Ctrl-C |

Tables are for people: colours only on a terminal and never with `NO_COLOR`, lines as wide as the terminal, whole lines
into a pipe. `-o json` and `-o yaml` are for programs and change additively only. Times are UTC.

```text
{help_text()}
```
"""


def page() -> str:
    """Return docs/cli.md."""
    parts = [_HEAD]
    for title, group in GROUPS.items():
        parts.append(f"## {title or 'Others'}\n")
        for name in group:
            parts += [f"### {path}\n\n```text\n{text}\n```\n" for path, text in _helps(name)]
    return "\n".join(parts)


def _helps(name: str) -> Iterator[tuple[str, str]]:
    """Yield a command's help, and that of each of its subcommands."""
    command = load(name)
    yield from _help_of(name, command)


def _help_of(path: str, command: Any) -> Iterator[tuple[str, str]]:
    context = command.make_context(f"windlass {path}", [], resilient_parsing=True, terminal_width=WIDTH)
    text: str = command.get_help(context)
    yield f"windlass {path}", "\n".join(line.rstrip() for line in text.splitlines()).strip()
    for name, sub in getattr(command, "commands", {}).items():
        yield from _help_of(f"{path} {name}", sub)


if __name__ == "__main__":
    sys.stdout.write(page())
