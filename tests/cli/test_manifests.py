from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from windlass.cli.manifests import read_manifests
from windlass.domain.errors import PermanentError
from windlass.domain.text.documents import DOCUMENT

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def names(where: Path | str) -> list[str]:
    return [one.object["metadata"]["name"] for one in read_manifests(str(where))]


def refused(where: Path | str) -> PermanentError:
    with pytest.raises(PermanentError) as caught:
        list(read_manifests(str(where)))
    assert caught.value.hint
    return caught.value


def test_documents_of_a_file_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join(["# only a comment\n", MAP % "b", "", MAP % "a"]))
    assert names(file) == ["b", "a"]


def test_a_file_may_have_any_name_and_be_json(tmp_path: Path) -> None:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    (tmp_path / "manifest").write_text(json.dumps(obj, indent="\t"))
    assert [one.object for one in read_manifests(str(tmp_path / "manifest"))] == [obj]


def test_a_folder_is_its_manifests_by_name(tmp_path: Path) -> None:
    for file in ("2.yaml", "1.yml", "3.json", "README.md"):
        text = json.dumps({"apiVersion": "v1", "kind": "K", "metadata": {"name": file}})
        (tmp_path / file).write_text("no manifest" if file == "README.md" else text)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "4.yaml").write_text(MAP % "4")
    assert names(tmp_path) == ["1.yml", "2.yaml", "3.json"]


def test_a_folder_without_manifests(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    assert refused(tmp_path).message == f"{tmp_path}: holds no .yaml, .yml or .json file"


def stdin(text: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode("latin-1")), encoding="utf-8")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stdin(MAP % "from-input"))
    assert names("-") == ["from-input"]


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stdin("kind: ConfigMap\n"))
    assert refused("-").message == "standard input, document 1: lacks apiVersion, metadata.name"


def test_standard_input_that_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stdin("a: \xff\n"))
    assert refused("-").message == "standard input: is not UTF-8 (byte 3)"


def test_lists_are_taken_apart(tmp_path: Path) -> None:
    a, b = ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "ab")
    typed = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "c"}}]}
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [a, typed, b]}
    (tmp_path / "x.json").write_text(json.dumps(whole))
    (tmp_path / "y.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    found = list(read_manifests(str(tmp_path)))
    assert [one.object for one in found] == [a, a | {"metadata": {"name": "c"}}, b]
    where = f"{tmp_path / 'x.json'}, document 1, item"
    assert [one.place for one in found] == [f"{where} 1", f"{where} 2, item 1", f"{where} 3"]


def test_an_object_whose_kind_ends_like_a_list_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("apiVersion: v1\nkind: PriceList\nmetadata: {name: a}\nspec: {items: []}\n")
    assert names(tmp_path) == ["a"]


def test_a_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.yaml").message == f"{tmp_path / 'no.yaml'}: does not exist"


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    # Unlike a mode, which does not hold back a superuser, this is refused to everybody.
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert "loop.yaml: cannot be read: Too many levels of symbolic links" in refused(tmp_path).message


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes((MAP % "a").encode() + b"# \xff\n")
    assert refused(file).message == f"{file}: is not UTF-8 (byte {len(MAP % 'a') + 2})"


def test_bad_yaml_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text((MAP % "a") + "---\nkind: [\n")
    assert refused(file).message.startswith(f"{file}: line 6, column 1 (byte ")


def test_a_file_that_is_too_long_is_refused_with_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text((MAP % "a") + "# " + "x" * DOCUMENT.size)
    error = refused(file)
    assert f"at most {DOCUMENT.size} are read" in error.message
    assert error.hint == "split it into several files"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("just text", "is no object"),
        ("- a\n- b", "is no object"),
        ("kind: K\nmetadata: {name: a}", "lacks apiVersion"),
        ("apiVersion: v1\nkind: ''\nmetadata: {name: a}", "lacks kind"),
        ("apiVersion: v1\nkind: K", "lacks metadata.name"),
        ("apiVersion: v1\nkind: K\nmetadata: a", "lacks metadata.name"),
        ("apiVersion: v1\nkind: K\nmetadata: {namespace: a}", "lacks metadata.name"),
        ("apiVersion: 1\nkind: K\nmetadata: {name: a}", "apiVersion is not text"),
        ("apiVersion: v1\nkind: K\nmetadata: {name: 5}", "metadata.name is not text"),
        ("a: 1", "lacks apiVersion, kind, metadata.name"),
        ("{apiVersion: v1, kind: List}", "lacks items"),
    ],
)
def test_what_is_no_manifest_is_told_with_its_document(tmp_path: Path, document: str, problem: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"{MAP % 'a'}---\n{document}\n")
    assert refused(file).message == f"{file}, document 2: {problem}"


@pytest.mark.parametrize(
    ("item", "problem"),
    [("text", "is no object"), ("{apiVersion: v1, kind: K}", "lacks metadata.name")],
)
def test_a_bad_item_of_a_list_is_told_with_its_number(tmp_path: Path, item: str, problem: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        f"apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: K, metadata: {{name: a}}}}, {item}]\n"
    )
    assert refused(file).message == f"{file}, document 1, item 2: {problem}"
