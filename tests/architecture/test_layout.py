"""What the import rules cannot say about the tree (design section 3)."""

from __future__ import annotations

import ast
import os
import tomllib

import pytest
from architecture.tree import ROOT, folders, modules, parsed, tracked

from windlass.devstack.paths import examples_dir

MODULE_LINES = 500
RUN_LINES = 60

FACES = {
    "windlass": "the version, for `pip show` and `--version`",
    "windlass.framework": "the public face of the framework: what operators import",
    "windlass.operators": "what programs of operators import to be put together",
    "windlass.controllerruntime": "the public names, whatever modules they live in",
    "windlass.cli": "the console script's entry, which imports nothing until it is called",
    "windlass.runtime": "the façades that stand for the public package runtimes",
    "windlass.servicesets": "the public face of `windlass.domain.servicesets`",
}
"""Packages whose `__init__` may hold more than a docstring, and why."""

PROGRAMS = ROOT / "examples" / "operators"
"""Example operators are run where they lie and import each other as programs do; nothing imports them."""

DATA = {"windlass.crds", "windlass.examples", "windlass.policies", "windlass.rbac", "windlass.tools"}
"""Packages that ship files and no code."""


def test_every_package_of_the_tree_is_shipped_and_no_other() -> None:
    shipped = set(folders().values())
    tops = {folder for name, folder in folders().items() if name.count(".") <= 1}
    in_tree = {path.parent for top in tops for path in top.rglob("*.py") if PROGRAMS not in path.parents}
    assert {str(path) for path in in_tree - shipped} == set(), "add them to [tool.setuptools] packages"
    assert {str(path) for path in shipped if not path.is_dir()} == set(), "packages without a folder"


@pytest.mark.parametrize("name", modules())
def test_modules_stay_small(name: str) -> None:
    lines = len(modules()[name].read_text().splitlines())
    assert lines <= MODULE_LINES, f"{name} has {lines} lines: split it by reason to change"


def test_tests_stay_small_too() -> None:
    long = {str(path): n for path in tracked("tests/*.py") if (n := len(path.read_text().splitlines())) > MODULE_LINES}
    assert long == {}


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "common", "misc"}
    assert {name for name in modules() if name.rpartition(".")[2] in drawers} == set()


@pytest.mark.parametrize("name", folders())
def test_an_init_says_the_folders_role_and_nothing_else(name: str) -> None:
    path = folders()[name] / "__init__.py"
    assert path.is_file(), f"{path} is missing: its docstring says the folder's role and rule"
    tree = parsed(path)
    assert ast.get_docstring(tree), f"{path} has no docstring"
    if name not in FACES:
        assert [type(node).__name__ for node in tree.body[1:]] == [], f"{path} holds code"


@pytest.mark.parametrize("name", sorted(set(modules()) - DATA))
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(parsed(modules()[name])), f"{name} has no docstring"


WORKFLOWS = [
    (name, node)
    for name, path in modules().items()
    if name.startswith("windlass.workflows.")
    for cls in parsed(path).body
    if isinstance(cls, ast.ClassDef)
    for node in cls.body
    if isinstance(node, ast.AsyncFunctionDef) and any(ast.unparse(d) == "workflow.run" for d in node.decorator_list)
]


@pytest.mark.parametrize(("name", "run"), WORKFLOWS, ids=[name for name, _ in WORKFLOWS])
def test_a_run_reads_as_a_story(name: str, run: ast.AsyncFunctionDef) -> None:
    assert run.end_lineno is not None
    assert run.end_lineno - run.lineno + 1 <= RUN_LINES, f"run of {name}: move details into methods"


def test_there_are_workflows_to_judge() -> None:
    assert "windlass.workflows.package" in {name for name, _ in WORKFLOWS}


def test_every_example_is_shipped() -> None:
    """`windlass demo` and its hooks work from an installed wheel, too."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folder = ROOT / tool["package-dir"]["windlass.examples"]
    shipped = {
        path for glob in tool["package-data"]["windlass.examples"] for path in folder.glob(glob) if path.is_file()
    }
    wanted = set(tracked("examples/applications/*", "examples/packages/*"))
    assert wanted - shipped == set()
    assert {path.name for path in wanted if path.match("hooks/*.sh") and not os.access(path, os.X_OK)} == set()


def test_an_installation_finds_its_examples() -> None:
    assert (examples_dir() / "packages" / "webapp" / "1.0.0" / "package.yaml").is_file()
