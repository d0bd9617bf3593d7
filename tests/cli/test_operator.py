"""`windlass operator new`: what it refuses, and that what it writes is Python and YAML."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from windlass.cli.operator import Kind, new, rendered
from windlass.domain.errors import PermanentError


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", ["site", "web-site", "bus", "a1"])
def test_every_file_can_be_read(kind: Kind, name: str) -> None:
    files = rendered(kind, name, "example.dev")
    assert {"main.py", "README.md"} <= set(files)
    for file, text in files.items():
        assert "${" not in text
        if file.endswith(".py"):
            ast.parse(text)
        elif file.endswith(".yaml"):
            assert list(yaml.safe_load_all(text))


def test_names_of_a_kind() -> None:
    crd = yaml.safe_load(rendered(Kind.FRAMEWORK, "web-bus", "sites.example.com")["crd.yaml"])
    assert crd["metadata"]["name"] == "webbuses.sites.example.com"
    assert crd["spec"]["names"] == {"kind": "WebBus", "plural": "webbuses", "singular": "webbus"}


@pytest.mark.parametrize("name", ["", "Web", "web_site", "1st", "a-", "a--b", "../x", "a" * 41, "a\n"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(PermanentError, match="cannot be the name"):
        new(name, output=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group", ["", "example", "Example.dev", ".dev", "a..b"])
def test_groups_that_cannot_be(tmp_path: Path, group: str) -> None:
    with pytest.raises(PermanentError, match="cannot be an API group"):
        new("site", output=tmp_path, group=group)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with pytest.raises(PermanentError, match="there already"):
        new("site", output=tmp_path)
    assert list((tmp_path / "site").iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermanentError, match="cannot be written"):
        new("site", output=tmp_path / "file")
