"""Every name that a contract exports has a counterpart with a docstring, or a reason why it has none."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parent / "contracts"
CITED = re.compile(r"\(contract: ([\w.,\s]+?)[;)]")
"""``(contract: ProcessUpdate)``, ``(contract: Framework, Config, New; frameworks.md section 1.7)``"""

ABSENT = {"open", "without"}


@dataclass(frozen=True)
class Counterpart:
    """What stands for a contract's name: ``path`` in ``module``."""

    contract: str
    item: str
    module: str
    path: str

    def __str__(self) -> str:
        return f"{self.contract}-{self.item}-{self.path}"


def contracts() -> dict[str, dict[str, Any]]:
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}


def counterparts() -> list[Counterpart]:
    return [
        Counterpart(contract, item, *target.split(":"))
        for contract, content in contracts().items()
        for item, told in content["items"].items()
        for target in ([told] if isinstance(told, str) else told if isinstance(told, list) else [])
    ]


def owner_and_name(one: Counterpart) -> tuple[Any, str]:
    """Look up what has the counterpart as an attribute or a field."""
    owner: Any = importlib.import_module(one.module)
    *outer, name = one.path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def fields(owner: Any) -> set[str]:
    """Name the fields of a class, those of pydantic models and dataclasses without a default included."""
    return {name for base in inspect.getmro(owner) for name in inspect.get_annotations(base)}


@pytest.mark.parametrize("one", counterparts(), ids=str)
def test_a_counterpart_exists_and_says_what_it_is(one: Counterpart) -> None:
    owner, name = owner_and_name(one)
    if inspect.isclass(owner) and name in fields(owner):
        return  # a field is told of by its class
    found = getattr(owner, name)
    if inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, property):
        assert (found.__doc__ or "").strip(), f"{one.module}:{one.path} has no docstring"


@pytest.mark.parametrize("contract", list(contracts()))
def test_counterparts_in_a_face_are_reached_from_its_top(contract: str) -> None:
    face = contracts()[contract].get("face", "")
    within = [one for one in counterparts() if one.contract == contract and f"{one.module}.".startswith(f"{face}.")]
    assert bool(face) == bool(within), "a face has counterparts"
    for one in within:
        top, name = importlib.import_module(face), one.path.partition(".")[0]
        assert name in top.__all__, f"{face} does not export {name}"
        assert getattr(top, name) is getattr(importlib.import_module(one.module), name)


@pytest.mark.parametrize("one", [one for one in counterparts() if contracts()[one.contract].get("cited")], ids=str)
def test_a_counterpart_names_the_item_it_stands_for(one: Counterpart) -> None:
    found = getattr(*owner_and_name(one))
    if inspect.isclass(found) or inspect.isfunction(found):
        cited = {item for names in CITED.findall(inspect.getdoc(found) or "") for item in re.split(r",\s+", names)}
        assert one.item.rpartition(".")[2] in cited, f"{one.module}:{one.path} says (contract: {one.item}) nowhere"


@pytest.mark.parametrize("contract", list(contracts()))
def test_what_has_no_counterpart_says_why(contract: str) -> None:
    for item, told in contracts()[contract]["items"].items():
        if isinstance(told, dict):
            [(kind, reason)] = told.items()
            assert kind in ABSENT, item
            assert reason.strip(), item
