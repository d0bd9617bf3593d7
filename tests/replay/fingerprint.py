"""What workflow code asks of Temporal, in order, read from its source with the standard library's `ast`.

A replayed workflow must issue the commands of its history again. So what matters of a workflow's source is which
commands its handlers can issue, in which order and below which branches and loops. That outline, the *fingerprint*,
stays the same when helpers are renamed or log lines added, and changes whenever a replay might.

Helpers are followed by name through all modules of the workflows folder: a function or method that issues commands
counts wherever its name is used, called or handed on. That sees too much rather than too little.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

type Function = ast.FunctionDef | ast.AsyncFunctionDef

_MODULE = "temporalio.workflow."
_ACTIVITIES = {
    f"{verb}_{kind}{form}"
    for verb in ("execute", "start")
    for kind in ("activity", "local_activity")
    for form in ("", "_class", "_method")
}
_PATCHES = {"patched", "deprecate_patch"}
_NAMED = _ACTIVITIES | _PATCHES | {"execute_child_workflow", "start_child_workflow"}
"""Commands whose first argument says what they are about."""
_COMMANDS = _NAMED | {
    "continue_as_new",
    "get_external_workflow_handle",
    "get_external_workflow_handle_for",
    "sleep",
    "upsert_memo",
    "upsert_search_attributes",
}
_TIMERS_IF_BOUNDED = {f"{_MODULE}wait_condition", f"{_MODULE}wait", "asyncio.wait"}
_TIMERS = {"asyncio.sleep", "asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for"}
_METHODS = {"cancel", "signal"}
"""Methods of handles and tasks that become commands (cancelling a task cancels what it awaits)."""
_STRUCTURE = {"case", "else", "except", "finally", "if", "loop", "try"}
_HANDLERS = {"init", "query", "run", "signal", "update"}


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """One workflow type.

    Attributes:
        outline: per handler its commands, indented below branches, loops and helpers.
        patches: ``patched <id>`` and ``deprecate_patch <id>`` in order of appearance.
    """

    outline: tuple[str, ...]
    patches: tuple[str, ...]


def fingerprints(folder: Path) -> dict[str, Fingerprint]:
    """Return the fingerprint of every workflow type defined in the Python files below ``folder``, by type name."""
    sources = _Sources.read(sorted(folder.rglob("*.py")))
    return {name: _fingerprint(workflow, sources) for name, workflow in sorted(sources.workflows.items())}


@dataclass(kw_only=True)
class _Sources:
    workflows: dict[str, ast.ClassDef] = field(default_factory=dict[str, ast.ClassDef])
    helpers: dict[str, list[Function]] = field(default_factory=dict[str, list[Function]])
    imports: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, paths: Iterable[Path]) -> _Sources:
        sources = cls()
        nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(), str(path)))]
        for node in nodes:
            sources._take_import(node)
        for node in nodes:
            sources._take_definition(node)
        return sources

    def _take_import(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                self.imports |= {alias.asname or alias.name: alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                self.imports |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case _:
                pass

    def _take_definition(self, node: ast.AST) -> None:
        match node:
            case ast.ClassDef():
                if (name := self._workflow_type(node)) is not None:
                    self.workflows[name] = node
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                # Handlers of one workflow type are no helpers of another.
                if _handler_kind(node) is None:
                    self.helpers.setdefault(node.name, []).append(node)
            case _:
                pass

    def _workflow_type(self, node: ast.ClassDef) -> str | None:
        for word, call in _decorators(node):
            if word == "defn":
                names = [keyword.value for keyword in call.keywords if keyword.arg == "name"] if call else []
                return self._text(names[0]) if names else node.name
        return None

    def _text(self, node: ast.expr) -> str:
        """Return the value of a string constant, written here or imported."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        module, _, name = self.meaning(node).rpartition(".")
        return str(getattr(importlib.import_module(module), name))

    def meaning(self, node: ast.expr) -> str:
        """Return the dotted name of ``node``, its first part resolved through the imports."""
        match node:
            case ast.Name(id=name):
                return self.imports.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.meaning(value)}.{attr}"
            case _:
                return "?"


def _decorators(node: ast.ClassDef | Function) -> list[tuple[str, ast.Call | None]]:
    found: list[tuple[str, ast.Call | None]] = []
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        target = call.func if call else decorator
        # `@approve.validator` decorates too; only `workflow.<word>` counts.
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            found.append((target.attr, call))
    return found


def _handler_kind(node: Function) -> str | None:
    if node.name == "__init__":
        return "init"  # decorated or not: dispatch tables are made there
    return next((word for word, _ in _decorators(node) if word in _HANDLERS), None)


def _functions(node: ast.ClassDef) -> list[Function]:
    return [child for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _fingerprint(workflow: ast.ClassDef, sources: _Sources) -> Fingerprint:
    outline: list[str] = []
    patches: list[str] = []
    for function in _functions(workflow):
        if (kind := _handler_kind(function)) is None:
            continue
        reader = _Outline(sources, {own.name: own for own in _functions(workflow)})
        lines = reader.read(function)
        if lines or kind == "run":
            outline += ["run" if kind == "run" else f"{kind} {function.name}", *_indented(lines)]
        patches += reader.patches
    return Fingerprint(outline=tuple(outline), patches=tuple(dict.fromkeys(patches)))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


class _Outline:
    """Collects one handler's commands in source order."""

    def __init__(self, sources: _Sources, own: dict[str, Function]) -> None:
        self.patches: list[str] = []
        self._sources = sources
        self._own = own
        self._lines: list[str] = []
        self._numbers: dict[Function, int] = {}
        self._silent: set[Function] = set()

    def read(self, function: Function) -> list[str]:
        return self._collected(function.body)

    def _collected(self, nodes: Sequence[ast.AST]) -> list[str]:
        kept, self._lines = self._lines, []
        for node in nodes:
            self.visit(node)
        collected, self._lines = self._lines, kept
        return collected

    def _block(self, label: str, nodes: Sequence[ast.AST]) -> None:
        if lines := self._collected(nodes):
            self._lines += [label, *_indented(lines)]

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._follow(self._sources.helpers.get(name, []))
            case ast.Attribute():
                self._attribute(node)
            case ast.Call():
                self._call(node)
            case ast.If(test=test, body=body, orelse=orelse):
                self.visit(test)
                self._block("if", body)
                self._block("else", orelse)
            case ast.IfExp(test=test, body=value, orelse=other):
                self.visit(test)
                self._block("if", [value])
                self._block("else", [other])
            case ast.For(iter=items, body=body, orelse=orelse) | ast.AsyncFor(iter=items, body=body, orelse=orelse):
                self.visit(items)
                self._block("loop", body)
                self._block("else", orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                self._block("loop", [test, *body])
                self._block("else", orelse)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node)
            case ast.Try() | ast.TryStar():
                self._block("try", node.body)
                for handler in node.handlers:
                    self._block("except", handler.body)
                self._block("else", node.orelse)
                self._block("finally", node.finalbody)
            case ast.Match(subject=subject, cases=cases):
                self.visit(subject)
                for case in cases:
                    self._block("case", [*([case.guard] if case.guard else []), *case.body])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass  # what is defined here counts where its name is used
            case _:
                for child in ast.iter_child_nodes(node):
                    self.visit(child)

    def _attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        mine = isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self._own
        self._follow([self._own[node.attr]] if mine else self._sources.helpers.get(node.attr, []))

    def _follow(self, functions: Sequence[Function]) -> None:
        for function in functions:
            if function in self._silent:
                continue
            if function in self._numbers:
                # Numbers, not names: renaming a helper changes no command.
                self._lines.append(f"helper {self._numbers[function]} again")
                continue
            number = self._numbers[function] = len(self._numbers) + 1
            before = self._lines
            lines = self._collected(function.body)
            self._lines = before
            if any(_significant(line.strip(), number) for line in lines):
                self._lines += [f"helper {number}", *_indented(lines)]
            else:
                del self._numbers[function]
                self._silent.add(function)

    def _call(self, node: ast.Call) -> None:
        meaning = self._sources.meaning(node.func)
        command = meaning.removeprefix(_MODULE) if meaning.startswith(_MODULE) else ""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        subject = ""
        if command in _NAMED and node.args:
            # What is started elsewhere is named, not followed.
            first, *arguments = arguments
            subject = str(first.value) if isinstance(first, ast.Constant) else ast.unparse(first)
        elif isinstance(node.func, (ast.Name, ast.Attribute)):
            self.visit(node.func)
        for argument in arguments:
            self.visit(argument)
        if command in _COMMANDS:
            self._lines.append(f"{command} {subject}".rstrip())
            if command in _PATCHES:
                self.patches.append(f"{command} {subject}")
        elif meaning in _TIMERS or (meaning in _TIMERS_IF_BOUNDED and _bounded(node)):
            self._lines.append(f"timer {meaning.rpartition('.')[2]}")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            self._lines.append(f"{node.func.attr} a handle")

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *rest = node.generators
        self.visit(first.iter)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._block("loop", [*first.ifs, *rest, *elements])


def _significant(line: str, number: int) -> bool:
    """Say whether ``line`` makes helper ``number`` worth showing: a command, or a way back to a helper around it."""
    if line.startswith("helper "):
        return line.endswith(" again") and line != f"helper {number} again"
    return line not in _STRUCTURE


def _bounded(node: ast.Call) -> bool:
    return len(node.args) > 1 or any(
        keyword.arg == "timeout" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
        for keyword in node.keywords
    )
