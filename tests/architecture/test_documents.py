"""What people apply and read can be parsed, and speaks of things that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from architecture.tree import ROOT, tracked

from windlass.contracts.objects import Application, Module
from windlass.contracts.repositories import PackageRepository

MODELS = {"Application": Application, "Module": Module, "PackageRepository": PackageRepository}
TEMPLATES = re.compile(r"/templates/")
MACHINE = re.compile(r"/root/|/work/|/home/(?!windlass\b)")


def yaml_files() -> list[Path]:
    found = tracked("examples/*.yaml", "deploy/*.yaml", "docs/*.yaml", "*.yaml", "*.yml")
    # Chart templates are not YAML until Helm has rendered them; some schemas of tests are broken on purpose.
    return [
        path for path in dict.fromkeys(found) if not TEMPLATES.search(str(path)) and ROOT / "tests" not in path.parents
    ]


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


@pytest.mark.parametrize("path", yaml_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses(path: Path) -> None:
    assert documents(path) or path.read_text().strip() == "", "no document"


OBJECTS = tracked("examples/applications/*.yaml", "examples/modules/*.yaml", "examples/repositories/*.yaml")


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_examples_are_objects_we_serve(path: Path) -> None:
    for document in documents(path):
        model = MODELS.get(document["kind"])
        if model is not None:
            model.model_validate(document)
        assert document["metadata"]["name"]


def test_examples_name_packages_that_are_there() -> None:
    for path in OBJECTS:
        for document in documents(path):
            if document["kind"] in {"Application", "Module"}:
                package = document["spec"]["package"]
                folder = ROOT / "examples" / "packages" / package["name"] / package["version"]
                assert (folder / "package.yaml").is_file(), f"{path.name}: {folder} is no package"


def test_no_file_names_a_machine() -> None:
    named = {
        str(path.relative_to(ROOT)): match.group()
        for path in tracked("*.py", "*.yaml", "*.yml", "*.md", "*.toml", "*.sh", "Makefile")
        if path != Path(__file__) and (match := MACHINE.search(path.read_text()))
    }
    assert named == {}


LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("path", tracked("*.md"), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_documents_lead_somewhere(path: Path) -> None:
    targets = [path.parent / target for target in LINK.findall(path.read_text())]
    assert [str(target) for target in targets if not target.exists()] == []
