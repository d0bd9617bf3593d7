"""How a chain and its route are told: as text and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.text import Text

from windlass.domain.servicesets.chains import ChainGraph, Route, UpgradeStep
from windlass.domain.servicesets.errors import ChainInvalidError


def lines(
    graph: ChainGraph, start: str, target: str, route: Route | None, problems: Sequence[ChainInvalidError]
) -> Iterator[Text]:
    """Yield the route, then every template with its upgrades; those on the route are marked."""
    if route is None:
        stays = "a service stays where it is, unless the target's version is older: that is installed at once"
        yield Text(f"{start} has no route to {target}: {stays}", "red")
    elif not route:
        yield Text(f"{start} is where it should be: nothing to do", "green")
    else:
        steps = "1 step" if len(route) == 1 else f"{len(route)} steps"
        yield Text.assemble((f"{steps}: ", "bold"), " -> ".join([start, *(shown(step) for step in route)]))
    yield Text()
    taken = _taken(start, route)
    for name in graph.templates:
        on = name in {start, target, *taken}
        row = Text.assemble(("* " if on else "  ", "cyan"), (name, "cyan bold" if on else ""))
        for number, step in enumerate(graph.upgrades.get(name, ())):
            row.append(", " if number else " -> ", "dim")
            row.append(shown(step), "cyan bold" if taken.get(name) == step.name else "dim")
        if name not in graph.upgrades:
            row.append("  not in supportedTemplates", "red")
        yield row
    if problems:
        yield Text()
    for problem in problems:
        yield Text.assemble(("invalid: ", "red"), problem.problem)


def document(
    graph: ChainGraph, start: str, target: str, route: Route | None, problems: Sequence[ChainInvalidError]
) -> dict[str, Any]:
    """Return the same for programs; ``route`` is null where none leads to the target."""
    return {
        "chain": str(graph.key),
        "from": start,
        "to": target,
        "route": None if route is None else [step._asdict() for step in route],
        "routes": [[step._asdict() for step in one] for one in graph.routes(start)] if start in graph.upgrades else [],
        "problems": [problem.problem for problem in problems],
    }


def shown(step: UpgradeStep) -> str:
    """Return a step as texts say it: the template, and its version if that says more."""
    return step.name if step.version == step.name else f"{step.name} ({step.version})"


def _taken(start: str, route: Route | None) -> dict[str, str]:
    """Return where the route leads from each template on it."""
    names = [start, *(step.name for step in route or ())]
    return dict(pairwise(names))
