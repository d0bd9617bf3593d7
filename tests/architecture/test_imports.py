"""What importing a module may do: nothing but define."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from architecture.tree import modules, parsed

CONNECTING = {
    "connect",
    "open",
    "Client",
    "ClientSession",
    "ApiClient",
    "KubeClient",
    "HelmClient",
    "Popen",
    "run",
    "get_event_loop",
    "new_event_loop",
}
READING = ("os.environ", "os.getenv", "sys.argv", "open(", ".read_text(", ".read_bytes(")
DURABLE = ("windlass.workflows.", "windlass.domain.", "windlass.contracts.")


def executed(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run on import: those of the module and of its classes, not those of functions."""
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.ClassDef):
            todo.extend(node.body)
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"__name__ == '__main__'", "TYPE_CHECKING"}:
            continue
        yield node


def called(node: ast.stmt) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Lambda):
            continue
        if isinstance(child, ast.Call):
            yield ast.unparse(child.func).rpartition(".")[2]


@pytest.mark.parametrize("name", modules())
def test_importing_connects_to_nothing_and_starts_nothing(name: str) -> None:
    found = {call for node in executed(parsed(modules()[name])) for call in called(node)} & CONNECTING
    if name.endswith(".__main__"):
        found -= {"run"}
    assert found == set(), f"{name} makes them when it is imported: make them where they are used and pass them in"


@pytest.mark.parametrize("name", modules())
def test_importing_reads_no_configuration(name: str) -> None:
    found = [ast.unparse(node) for node in executed(parsed(modules()[name])) if not isinstance(node, ast.Import)]
    reads = [line for line in found if any(word in line for word in READING) and not line.startswith(("def ", '"'))]
    assert reads == [], f"{name} reads when it is imported: pass it in"


@pytest.mark.parametrize("name", [name for name in modules() if name.startswith(DURABLE)])
def test_durable_code_catches_no_foreign_exception_wholesale(name: str) -> None:
    wholesale = [
        node.lineno
        for node in ast.walk(parsed(modules()[name]))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
    ]
    assert wholesale == []
