"""Tasks in worker code run behind the border of a package, or are supervised by the process itself and say how."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from architecture.tree import modules, parsed

STARTERS = frozenset({"create_task", "ensure_future", "TaskGroup", "call_later", "call_at", "run_coroutine_threadsafe"})
"""Calls that make something run beside whoever calls. What fails there ends its owner, or is noticed by nobody."""

BEHIND = frozenset({"windlass.observers.border"})
"""The border itself."""

SUPERVISED = {
    "worker.app.run_fenced": "the workers of one shard; awaited, and what ends one ends all of the shard in order",
    "worker.app._told": "waits for events; ended by their maker",
    "worker.app._ended": "shuts workers down; awaited",
    "observers.drift.monitor.DriftMonitor.arrived": "begins to read the packages anew, and does nothing itself",
    "observers.drift.monitor.DriftMonitor._plan": "begins a comparison, and does nothing itself",
    "observers.hooks.service.HookWatchService._restore_all": "a group of borders: none of its tasks fails",
    "worker.main.run": "the parts of the process",
    "worker.main._persist": "one part of the process: logged and started again whatever ends it",
    "worker.pools.run_until": "a worker of a pool; awaited",
    "worker.process.Process._watching": "the watcher; whatever ends it is logged and it starts again (`main._persist`)",
    "worker.process._beside": "waits for definitions; ended by its maker",
    "worker.process._limited": "waits for the stop; ended by its maker",
    "observers.quarantine.Quarantine._review": "begins to tell a lifecycle, and does nothing itself",
    "observers.quarantine.Quarantine._tell": "tells a lifecycle; catches everything and tries again",
    "worker.shards.ShardKeeper.run": "follows members and table; awaited, and what ends one ends the keeper",
    "worker.shards.ShardKeeper._begin": "one shard; awaited by the keeper",
    "observers.watcher.signals.SignalQueue.run": "senders of the watcher; each catches what is of one package",
    "worker.waiting.explained": "writes a line into the log",
}
"""Where else something is begun, and what supervises it."""


def begun(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the qualified name of every function that begins something, and the line."""

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = (*names, child.name)
            if isinstance(child, ast.Call):
                called = child.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name in STARTERS:
                    yield ".".join(names), child.lineno
            yield from visit(child, inner)

    return visit(tree, ())


def owner(module: str, function: str) -> str:
    """Return the name under which a place stands in the list: nested functions count as the one they are in."""
    parts = function.split(".")
    method = parts[0].lstrip("_")[:1].isupper()
    return ".".join((module.removeprefix("windlass."), *parts[: 2 if method else 1]))


def places() -> dict[str, list[int]]:
    """Return every place in worker code, but for the border, that begins something, with its lines."""
    found: dict[str, list[int]] = {}
    for name, path in modules().items():
        if name.startswith(("windlass.worker.", "windlass.observers.")) and name not in BEHIND:
            for function, line in begun(parsed(path)):
                found.setdefault(owner(name, function), []).append(line)
    return found


def test_what_runs_for_a_package_runs_behind_its_border() -> None:
    strangers = {place: lines for place, lines in places().items() if place not in SUPERVISED}
    assert strangers == {}, (
        "run it through `observers.border.Border`; what belongs to the whole process and is supervised otherwise "
        "goes into the list, with who looks after it"
    )


def test_the_list_names_only_what_is_there() -> None:
    assert sorted(SUPERVISED.keys() - places().keys()) == []


def test_a_task_that_is_made_in_passing_is_found() -> None:
    tree = ast.parse("class A:\n    def b(self):\n        async def c():\n            asyncio.create_task(d())\n")
    assert [owner("windlass.worker.x", function) for function, _ in begun(tree)] == ["worker.x.A.b"]
