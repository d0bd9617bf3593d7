"""Draws a chain as SVG: templates in layers from left to right, upgrades as arrows, the chosen route in colour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape

from windlass.domain.servicesets.chains import ChainGraph, Route

_CHARACTER: Final = 7.4
"""Width of one character of the font, with room for fonts that are wider."""

_HEIGHT: Final = 44
_GAP_X: Final = 70
_GAP_Y: Final = 34
_MARGIN: Final = 30
_BOW: Final = 30
_BOW_MORE: Final = 10
"""Height of the first bow, and how much farther out each further one goes."""

_STYLE: Final = """\
  .box{fill:#f6f8fa;stroke:#8c959f;stroke-width:1.2}.on{fill:#ddf4ff;stroke:#0969da;stroke-width:2}
  .out{stroke-dasharray:4 3}.edge{fill:none;stroke:#afb8c1;stroke-width:1.4}.way{stroke:#0969da;stroke-width:2.6}
  text{font:600 13px ui-monospace,Menlo,Consolas,monospace;fill:#1f2328;text-anchor:middle}
  .v{font-weight:400;fill:#59636e}
  .bg{fill:#fff}.tip{fill:#afb8c1}.tipway{fill:#0969da}
  @media (prefers-color-scheme:dark){.bg{fill:#0d1117}.box{fill:#161b22;stroke:#6e7681}.on{fill:#0c2d6b;stroke:#58a6ff}
  text{fill:#e6edf3}.v{fill:#9198a1}.edge{stroke:#484f58}.way{stroke:#58a6ff}.tip{fill:#484f58}.tipway{fill:#58a6ff}}"""


def picture(graph: ChainGraph, start: str, target: str, route: Route | None) -> str:
    """Return the SVG text; the same chain and route give the same picture, in light and dark pages.

    A template stands right of those that lead to it, as far as the chain does not lead back; upgrades that lead left
    are drawn as bows: above within the first row, below elsewhere.
    """
    names = [start, *(step.name for step in route or ())]
    layers = _layers(graph, names)
    width = max((len(text) for name in graph.templates for text in (name, _version(graph, name))), default=1)
    box = width * _CHARACTER + 24
    edges = [(name, step.name) for name, steps in graph.upgrades.items() for step in steps if step.name != name]
    column = {name: number for number, members in enumerate(layers) for name in members}
    back = [edge for edge in edges if column[edge[1]] <= column[edge[0]]]
    top = {members[0] for members in layers if members}
    above = sum(top.issuperset(edge) for edge in back)
    over, under = (_BOW + _BOW_MORE * count if count else 0 for count in (above, len(back) - above))
    place = {
        name: (_MARGIN + number * (box + _GAP_X), float(_MARGIN + over + row * (_HEIGHT + _GAP_Y)))
        for number, members in enumerate(layers)
        for row, name in enumerate(members)
    }
    high = max((len(members) for members in layers), default=1)
    size = (
        2 * _MARGIN + len(layers) * (box + _GAP_X) - _GAP_X,
        2 * _MARGIN + over + high * (_HEIGHT + _GAP_Y) - _GAP_Y + under,
    )
    way = set(pairwise(names))
    title = f"{graph.key}: {' -> '.join(names)}" if route is not None else f"{graph.key}: no route to {target}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        "<defs>",
        *(
            f'<marker id="{tip}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
            f' markerUnits="userSpaceOnUse" orient="auto"><path class="{tip}" d="M0 0L8 4L0 8z"/></marker>'
            for tip in ("tip", "tipway")
        ),
        "</defs>",
        '<rect class="bg" width="100%" height="100%"/>',
    ]
    ordered = sorted(edges, key=lambda edge: edge in way)
    lines += [_arrow(_forward_path(place, box, *edge), edge in way) for edge in ordered if edge not in back]
    lines += [_arrow(path, edge in way) for edge, path in _bows(back, place, box, top, size[1])]
    for name, (x, y) in place.items():
        shape = "box on" if name in names else "box"
        outside = "" if name in graph.upgrades else " out"
        middle = x + box / 2
        version = _version(graph, name)
        lines.append(
            f'<rect class="{shape}{outside}" x="{x:.0f}" y="{y:.0f}" width="{box:.0f}" height="{_HEIGHT}" rx="8"/>'
        )
        lines.append(f'<text x="{middle:.0f}" y="{y + (19 if version else 27):.0f}">{escape(name)}</text>')
        if version:
            lines.append(f'<text class="v" x="{middle:.0f}" y="{y + 35:.0f}">{escape(version)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _layers(graph: ChainGraph, route: Sequence[str]) -> list[list[str]]:
    """Return templates in columns: each right of all that lead to it, edges that lead back left out.

    Within a column the route's templates come first, the others in the chain's order.
    """
    forward = _forward(graph, route[0])
    rank = {name: number for number, name in enumerate(forward)}
    column = dict.fromkeys(graph.templates, 0)
    for name in forward:
        for step in graph.upgrades.get(name, ()):
            if rank[step.name] > rank[name]:
                column[step.name] = max(column[step.name], column[name] + 1)
    layers: list[list[str]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for name in dict.fromkeys((*route, *graph.templates)):
        layers[column[name]].append(name)
    return layers


def _forward(graph: ChainGraph, start: str) -> list[str]:
    """Return templates so that edges lead forward, but for those that close a circle (depth first, from the roots)."""
    targets = {step.name for steps in graph.upgrades.values() for step in steps}
    roots = [name for name in graph.templates if name not in targets]
    done: dict[str, None] = {}
    seen: set[str] = set()
    for root in (*roots, start, *graph.templates):
        if root in seen:
            continue
        seen.add(root)
        walk = [(root, iter(graph.upgrades.get(root, ())))]
        while walk:
            name, steps = walk[-1]
            following = next((step.name for step in steps if step.name not in seen), None)
            if following is None:
                done[name] = None
                walk.pop()
            else:
                seen.add(following)
                walk.append((following, iter(graph.upgrades.get(following, ()))))
    return list(reversed(done))


def _arrow(path: str, on: bool) -> str:
    kind, tip = ("edge way", "tipway") if on else ("edge", "tip")
    return f'<path class="{kind}" marker-end="url(#{tip})" d="{path}"/>'


def _forward_path(place: Mapping[str, tuple[float, float]], box: float, start: str, end: str) -> str:
    (x0, y0), (x1, y1) = place[start], place[end]
    left, right = x0 + box, x1 - 2
    middle0, middle1 = y0 + _HEIGHT / 2, y1 + _HEIGHT / 2
    bend = _GAP_X * 0.6
    if x1 - x0 <= box + _GAP_X + 1 or y0 != y1:
        return (
            f"M{left:.0f} {middle0:.0f}C{left + bend:.0f} {middle0:.0f}"
            f" {right - bend:.0f} {middle1:.0f} {right:.0f} {middle1:.0f}"
        )
    # A line that passes other columns at the same height bends out of their way.
    low = middle0 + _HEIGHT / 2 + _GAP_Y / 2
    return (
        f"M{left:.0f} {middle0:.0f}C{left + bend:.0f} {middle0:.0f} {left + 10:.0f} {low:.0f}"
        f" {left + _GAP_X:.0f} {low:.0f}L{right - _GAP_X:.0f} {low:.0f}"
        f"C{right - 10:.0f} {low:.0f} {right - bend:.0f} {middle1:.0f} {right:.0f} {middle1:.0f}"
    )


def _bows(
    back: Iterable[tuple[str, str]],
    place: Mapping[str, tuple[float, float]],
    box: float,
    top: Collection[str],
    height: float,
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each upgrade that leads back, and its path; each bow a little farther out than the one before."""
    high, low = float(_MARGIN), height - _MARGIN
    for start, end in back:
        (x0, y0), (x1, y1) = place[start], place[end]
        foot0, foot1 = x0 + box * 0.6, x1 + box * 0.4
        if start in top and end in top:
            yield (
                (start, end),
                f"M{foot0:.0f} {y0:.0f}C{foot0:.0f} {high:.0f} {foot1:.0f} {high:.0f} {foot1:.0f} {y1 - 2:.0f}",
            )
            high -= _BOW_MORE
        else:
            y0, y1 = y0 + _HEIGHT, y1 + _HEIGHT + 2
            yield (
                (start, end),
                f"M{foot0:.0f} {y0:.0f}C{foot0:.0f} {low:.0f} {foot1:.0f} {low:.0f} {foot1:.0f} {y1:.0f}",
            )
            low += _BOW_MORE


def _version(graph: ChainGraph, name: str) -> str:
    """Return the version that the chain says of a template; empty if it says none."""
    said = (step.version for steps in graph.upgrades.values() for step in steps if step.name == name)
    return next((version for version in said if version != name), "")
