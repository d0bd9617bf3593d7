"""A package's inventory as people and programs read it: a tree with state and age, or a nested document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from windlass.cli.output import age
from windlass.domain.lifecycle.readiness import State
from windlass.domain.lifecycle.releases import DEPLOYED
from windlass.domain.lifecycle.releases import FAILED as RELEASE_FAILED
from windlass.observers.inspection.inventory import ABSENT, RELEASE, Inventory, Node

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

_HEADS: Final = ("OBJECT", "AGE", "STATE")
_GAP: Final = "  "
_STATE_MIN: Final = 24
"""Columns that states get at least; names are folded before."""

_GOOD: Final = {State.CURRENT, DEPLOYED}
_BAD: Final = {State.FAILED, ABSENT, RELEASE_FAILED}


@dataclass(frozen=True)
class _Guides:
    """What draws the tree: before the last child, before others, and below either; all of one width."""

    last: str
    other: str
    below_last: str
    below_other: str


_LINES: Final = _Guides("└─ ", "├─ ", "   ", "│  ")
_ASCII: Final = _Guides("`- ", "|- ", "   ", "|  ")


class TreeView:
    """Draws one line for each object, folded where the terminal is narrow; the guides go through.

    Args:
        inventory: what to draw.
        now: what ages are counted from.
    """

    def __init__(self, inventory: Inventory, now: datetime) -> None:
        self._inventory = inventory
        self._now = now

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw (rich's protocol)."""
        from rich.cells import cell_len, chop_cells
        from rich.text import Text

        guides = _ASCII if options.ascii_only else _LINES
        namespace = self._inventory.root.ref.namespace
        drawn = list(_drawn(self._inventory.root, guides))
        ages = [age(node.created, self._now) for node, _, _ in drawn]
        age_width = max(map(len, [*ages, _HEADS[1]]))
        natural = max(cell_len(first + label(node, namespace)) for node, first, _ in drawn)
        room = options.max_width - age_width - 2 * len(_GAP) - _STATE_MIN
        deepest = max(cell_len(below) for _, _, below in drawn)
        width = max(min(natural, room), len(_HEADS[0]), deepest + 1)
        left = max(options.max_width - width - age_width - 2 * len(_GAP), 1)
        head = _GAP.join([_HEADS[0].ljust(width), _HEADS[1].ljust(age_width), _HEADS[2]])
        yield Text(head, "bold", no_wrap=True, overflow="crop")
        for (node, first, below), since in zip(drawn, ages, strict=True):
            # Further lines of a name are indented by the guide to its children, so they have less room.
            name = label(node, namespace)
            whole = cell_len(first + name) <= width
            names = [name] if whole else chop_cells(name, width - cell_len(below))
            states = list(_state(node).wrap(console, left))
            for at in range(max(len(names), len(states))):
                guide = first if at == 0 else below
                cell = guide + (names[at] if at < len(names) else "")
                line = Text.assemble(cell, " " * (width - cell_len(cell)), _GAP)
                line.append((since if at == 0 else "").ljust(age_width) + _GAP)
                if at < len(states):
                    line.append_text(states[at])
                line.rstrip()
                yield line
        for text in self._inventory.unread:
            yield Text(f"not listed: {text}", "yellow")


def _drawn(root: Node, guides: _Guides) -> Iterator[tuple[Node, str, str]]:
    """Yield each node, what stands before its name, and what stands before the further lines of its name."""

    def descend(node: Node, prefix: str, before: str, below: str) -> Iterator[tuple[Node, str, str]]:
        inner = prefix + below
        yield node, prefix + before, inner + (guides.below_other if node.children else guides.below_last)
        for at, child in enumerate(node.children, start=1):
            last = at == len(node.children)
            before, under = (guides.last, guides.below_last) if last else (guides.other, guides.below_other)
            yield from descend(child, inner, before, under)

    return descend(root, "", "", "")


def label(node: Node, namespace: str) -> str:
    """Return Kind/name, and where it is if that is another namespace than the package's."""
    ref = node.ref
    elsewhere = f" ({ref.namespace})" if ref.namespace and ref.namespace != namespace else ""
    return f"{ref.kind}/{ref.name}{elsewhere}"


def state_text(node: Node) -> str:
    """Return an object's state in words: current, or what it is and why."""
    if node.ref.kind == RELEASE:
        return f"{node.state}, {node.message}"
    return f"{node.state}: {node.message}" if node.message and node.state != State.CURRENT else node.state


def _state(node: Node) -> Text:
    from rich.text import Text

    return Text(state_text(node), "green" if node.state in _GOOD else "red" if node.state in _BAD else "yellow")


def document(node: Node) -> dict[str, Any]:
    """Return a node and what is below it for programs."""
    told: dict[str, Any] = {
        "apiVersion": node.ref.api_version,
        "kind": node.ref.kind,
        "namespace": node.ref.namespace,
        "name": node.ref.name,
        "uid": node.uid,
        "state": str(node.state),
        "message": node.message,
        "created": node.created.isoformat().replace("+00:00", "Z") if node.created else "",
    }
    children = [document(child) for child in node.children]
    return {key: value for key, value in told.items() if value} | ({"children": children} if children else {})


def changes(before: Inventory | None, after: Inventory) -> Sequence[str]:
    """Return one line for each object that is new, gone, or in another state than before."""
    namespace = after.root.ref.namespace
    known = {label(node, namespace): state_text(node) for node in before.root.walk()} if before else {}
    now = {label(node, namespace): state_text(node) for node in after.root.walk()}
    lines = [f"{name}  {state}" for name, state in now.items() if known.get(name) != state]
    return lines + [f"{name}  gone" for name in known if name not in now]
