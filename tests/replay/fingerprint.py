"""What workflow code asks of Temporal, in order, read from its source with the standard library's `ast`.

A replayed workflow must issue the commands of its history again. So what matters of a workflow's source is which
commands its handlers can issue, in which order and below which branches and loops. That outline, the *fingerprint*,
stays the same when helpers are renamed or log lines added, and changes whenever a replay might.

Helpers are followed by name through all modules of the workflows folder: a method or function of any module that issues
commands counts wherever its name is used, called or handed on. That sees too much rather than too little.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_ACTIVITY = {
    f"{verb}_{kind}{form}"
    for verb in ("execute", "start")
    for kind in ("activity", "local_activity")
    for form in ("", "_class", "_method")
}
_NAMING_FIRST_ARGUMENT = _ACTIVITY | {
    "execute_child_workflow",
    "start_child_workflow",
    "get_external_workflow_handle",
    "get_external_workflow_handle_for",
    "patched",
    "deprecate_patch",
}
_COMMANDS = _NAMING_FIRST_ARGUMENT | {
    "continue_as_new",
    "create_nexus_client",
    "sleep",
    "upsert_memo",
    "upsert_search_attributes",
}
_TIMERS_OF_ASYNCIO = {"sleep", "timeout", "timeout_at", "wait_for"}
_HANDLERS = ("run", "signal", "update", "query", "init")
_PATCHES = ("patched", "deprecate_patch")


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """The outline of one workflow type: per handler its commands, indented below branches and loops."""

    outline: tuple[str, ...]
    patches: tuple[str, ...]


def fingerprints(folder: Path) -> dict[str, Fingerprint]:
    """Return the fingerprint of every workflow type defined in the Python files of ``folder``."""
    sources = _Sources.read(folder)
    return {name: _fingerprint(workflow, sources) for name, workflow in sorted(sources.workflows.items())}


@dataclass(kw_only=True)
class _Sources:
    """Everything by name: workflow types, functions and methods of all modules."""

    workflows: dict[str, ast.ClassDef] = field(default_factory=dict[str, ast.ClassDef])
    callables: dict[str, list[ast.AST]] = field(default_factory=dict[str, list[ast.AST]])
    modules: dict[str, str] = field(default_factory=dict[str, str])
    """Local name to what it is imported as: ``workflow`` -> ``temporalio.workflow``."""

    @classmethod
    def read(cls, folder: Path) -> _Sources:
        sources = cls()
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text(), str(path))
            for node in ast.walk(tree):
                sources._take(node)
        return sources

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                self.modules |= {alias.asname or alias.name: alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                self.modules |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case ast.ClassDef() if (name := _workflow_type(node)) is not None:
                self.workflows[name] = node
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.callables.setdefault(node.name, []).append(node)
            case _:
                pass

    def meaning(self, node: ast.expr) -> str:
        """Return the dotted name of ``node`` with its first part resolved through the imports; empty if it is none."""
        match node:
            case ast.Name(id=name):
                return self.modules.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.meaning(value)}.{attr}"
            case _:
                return ""


def _workflow_type(node: ast.ClassDef) -> str | None:
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        target = call.func if call else decorator
        if isinstance(target, ast.Attribute) and target.attr == "defn":
            names = [word.value for word in call.keywords if word.arg == "name"] if call else []
            return str(ast.literal_eval(names[0])) if names else node.name
    return None


def _handler_kind(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Attribute) and target.attr in _HANDLERS:
            return target.attr
    return None


def _fingerprint(workflow: ast.ClassDef, sources: _Sources) -> Fingerprint:
    outline: list[str] = []
    patches: list[str] = []
    for node in workflow.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (kind := _handler_kind(node)) is not None:
            visitor = _Outline(sources, workflow)
            visitor.follow(node)
            outline += [f"{kind} {node.name}" if kind != "run" else "run", *(f"  {line}" for line in visitor.lines)]
            patches += visitor.patches
    return Fingerprint(outline=tuple(outline), patches=tuple(dict.fromkeys(patches)))


class _Outline(ast.NodeVisitor):
    """Collects commands in source order, which is evaluation order except inside one expression."""

    def __init__(self, sources: _Sources, workflow: ast.ClassDef) -> None:
        self.lines: list[str] = []
        self.patches: list[str] = []
        self._sources = sources
        self._own = {node.name: node for node in workflow.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        self._path: list[ast.AST] = []
        self._depth = 0

    def follow(self, function: ast.AST) -> None:
        """Take in the commands of ``function`` here, once per way to it."""
        if function in self._path:
            self._emit("(again)") if self._issues(function) else None
            return
        self._path.append(function)
        for child in getattr(function, "body", []):
            self.visit(child)
        self._path.pop()
