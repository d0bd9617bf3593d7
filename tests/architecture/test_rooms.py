"""Folders are rooms: small enough to find the door, and without import cycles."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from architecture.tree import folders, modules, parsed

ROOM_MODULES = 20


@pytest.mark.parametrize("name", folders())
def test_no_room_is_crowded(name: str) -> None:
    found = [path.stem for path in folders()[name].glob("*.py") if path.stem != "__init__"]
    assert len(found) <= ROOM_MODULES, f"{name} has {len(found)} modules: make rooms by subject"


def imported(name: str, path: Path) -> set[str]:
    """Modules that ``name`` imports anywhere: in functions and for type checkers, too."""
    known = modules()
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found |= {
                whole if (whole := f"{node.module}.{alias.name}") in known else node.module for alias in node.names
            }
    return {one for one in found if one in known and one != name}


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {name: imported(name, path) for name, path in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))
