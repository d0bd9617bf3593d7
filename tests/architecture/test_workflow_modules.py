"""Modules of workflows are loaded once for all runs (`windlass.worker.sandbox`): none may keep what one run leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from architecture.tree import modules, parsed

from windlass.worker.sandbox import PASSED_THROUGH

SHARED = sorted(name for name in modules() if name.startswith("windlass.workflows.") and name not in PASSED_THROUGH)

CONSTANTS = (ast.Constant, ast.Tuple, ast.Attribute, ast.Name, ast.BinOp, ast.UnaryOp)
"""What evaluates to something that cannot change, given that names stand for such things."""

MAKERS = {"frozenset", "timedelta", "RetryPolicy"}


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[int, ast.expr]]:
    for node in body:
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.AugAssign(value=value):
                yield node.lineno, value
            case ast.ClassDef(body=inner):
                yield from _assigned(inner)
            case ast.With(body=inner):
                yield from _assigned(inner)
            case _:
                pass


def _fixed(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in MAKERS
    return isinstance(value, CONSTANTS)


@pytest.mark.parametrize("name", SHARED)
def test_nothing_that_can_change_lives_in_a_module_or_class(name: str) -> None:
    tree = parsed(modules()[name])
    found = [f"line {line}: {ast.unparse(value)}" for line, value in _assigned(tree.body) if not _fixed(value)]
    assert found == [], "keep it in the workflow's instance"


@pytest.mark.parametrize("name", SHARED)
def test_no_function_rebinds_a_name_of_its_module_or_keeps_answers(name: str) -> None:
    tree = parsed(modules()[name])
    rebound = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)]
    cached = [
        decorator.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if "cache" in ast.unparse(decorator)
    ]
    assert rebound + cached == []


def test_there_are_such_modules() -> None:
    assert "windlass.workflows.package" in SHARED
