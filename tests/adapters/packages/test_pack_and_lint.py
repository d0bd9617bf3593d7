from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from support.packages import package_yaml, write_tree
from windlass.adapters.packages.format.digest import digest_of
from windlass.adapters.packages.format.lint import lint
from windlass.adapters.packages.format.loader import load
from windlass.adapters.packages.format.pack import pack
from windlass.domain.errors import PermanentError, Reason

EXAMPLES = sorted((Path(__file__).parents[3] / "examples/packages").glob("*/*"))

GOOD: dict[str, str | bytes] = {
    "package.yaml": package_yaml(),
    "Chart.yaml": 'apiVersion: v2\nname: webapp\nversion: "1.0.0"\n',
    "values.yaml": "port: 80\n",
    "openapi/settings.yaml": "type: object\nproperties:\n  title: {type: string, default: x}\n",
    "openapi/values.yaml": "x-extend: {schema: settings.yaml}\ntype: object\nproperties:\n  port: {type: integer}\n",
    "templates/a.yaml": "kind: ConfigMap\n",
    "hooks/a.sh": "#!/bin/sh\n",
    "hooks/lib/b.sh": "#!/bin/sh\n",
}


def package(root: Path, **changed: str | bytes) -> Path:
    files = GOOD | {name.replace("__", "/"): content for name, content in changed.items()}
    return write_tree(root, files, executable=["hooks/a.sh"])


def told(root: Path) -> list[str]:
    return [f"{problem.file}:{problem.line}: {problem.message}" for problem in lint(root)]


def test_there_are_examples_and_they_are_clean() -> None:
    found = {path.parent.name: told(path) for path in EXAMPLES}
    assert found == {"cache": [], "notice": [], "vault": [], "webapp": []}


def test_packing_is_deterministic(tmp_path: Path) -> None:
    first, second = package(tmp_path / "one"), package(tmp_path / "two")
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
    (second / "values.yaml").chmod(0o600)
    packed = [pack(root, tmp_path / f"{root.name}-out") for root in (first, second)]
    assert packed[0].path.name == "webapp-1.0.0.tgz"
    assert packed[0].path.read_bytes() == packed[1].path.read_bytes()
    assert packed[0].digest == packed[1].digest == digest_of(first)
    assert packed[0].size == packed[0].path.stat().st_size
    assert [path.name for path in packed[0].path.parent.iterdir()] == ["webapp-1.0.0.tgz"]
    with tarfile.open(packed[0].path) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.uid, member.uname, member.mtime) for member in members} == {(0, "", 0)}
    assert {member.name for member in members if member.mode == 0o755} == {"hooks/a.sh"}


def test_packing_again_replaces(tmp_path: Path) -> None:
    root = package(tmp_path / "webapp")
    old = pack(root, tmp_path)
    (root / "values.yaml").write_text("port: 81\n")
    new = pack(root, tmp_path)
    assert old.path == new.path
    assert old.digest != new.digest


def test_only_packages_that_load_are_packed(tmp_path: Path) -> None:
    with pytest.raises(PermanentError) as caught:
        pack(package(tmp_path / "webapp", **{"values.yaml": "- 1"}), tmp_path / "out")
    assert caught.value.reason is Reason.LOAD_FAILED
    (tmp_path / "webapp/link").symlink_to("values.yaml")
    with pytest.raises(PermanentError) as caught:
        pack(tmp_path / "webapp", tmp_path / "out")
    assert caught.value.reason is Reason.ARCHIVE_REJECTED
    assert not (tmp_path / "out").exists()


def test_a_good_package_has_no_problems(tmp_path: Path) -> None:
    assert told(package(tmp_path)) == []


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("package.yaml", "type: Application\nname: webapp\nversion: 1.0\n", "package.yaml:3: version: is a number"),
        ("package.yaml", package_yaml(requirements={"kubernets": ""}), "package.yaml:3: requirements.kubernets"),
        ("package.yaml", "a: [", "package.yaml:1: "),
        ("Chart.yaml", "apiVersion: v2\nname: webapp\nversion: 1.10\n", "Chart.yaml:3: version: must be text"),
        ("Chart.yaml", "apiVersion: v2\nname: webapp\n", "Chart.yaml:0: version: must be text"),
        ("values.yaml", "port: 80\nport: 81\n", "values.yaml:2: line 2, column 1 (byte 9): a key stands twice"),
        ("values.yaml", "port: 80\n---\nport: 81\n", "values.yaml:1: line 1, column 1 (byte 0): 2 documents"),
        ("values.yaml", "port: eighty\n", "values.yaml:1: values.port"),
        ("values.yaml", "\n\nprot: 80\n", "values.yaml:3: values"),
        ("values.yaml", "webapp: {port: 80}\nimage: x\n", "values.yaml:2: image: ignored"),
        ("openapi/settings.yaml", "type: object\nproperties:\n  a: {type: integre}\n", "openapi/settings.yaml:3: "),
        (
            "openapi/settings.yaml",
            "type: object\nproperties:\n  a:\n    type: integer\n    default: x\n",
            "openapi/settings.yaml:5: /properties/a/default: the default",
        ),
        ("openapi/values.yaml", "x-extend: {schema: other.yaml}\ntype: object\n", "openapi/values.yaml:1: "),
        ("images_digests.json", '{"a": 1}', "images_digests.json:0: a: not text"),
        ("hooks/b.sh", "#!/bin/sh\n", "hooks/b.sh:0: is a script that cannot be run"),
        ("charts/sub.tgz", "x", "charts:0: charts/sub.tgz: "),
    ],
)
def test_faults_are_told_with_file_and_line(tmp_path: Path, file: str, content: str, says: str) -> None:
    problems = told(package(tmp_path, **{file: content}))
    assert any(problem.startswith(says) for problem in problems), problems


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    bad = {"package.yaml": "type: Module\n", "values.yaml": "- 1", "openapi/settings.yaml": "a: ["}
    assert len({problem.split(":")[0] for problem in told(package(tmp_path, **bad))}) == 3


def test_links_are_told(tmp_path: Path) -> None:
    (package(tmp_path) / "link").symlink_to("values.yaml")
    assert "link is neither a file nor a folder" in told(tmp_path)[0]


def test_a_folder_in_a_repository_is_called_like_its_package(tmp_path: Path) -> None:
    problems = told(package(tmp_path / "other/1.0.1"))
    assert [problem.partition(" is ")[0] for problem in problems] == [
        "package.yaml:1: name:",
        "package.yaml:3: version:",
    ]
    assert told(package(tmp_path / "webapp/1.0.0")) == []


def test_faults_in_json_with_tabs_have_a_line(tmp_path: Path) -> None:
    problems = told(package(tmp_path, **{"values.yaml": '{\n\t"port": "x"\n}'}))
    assert problems[0].startswith("values.yaml:2: values.port")


def test_settings_that_users_must_give_are_not_missed(tmp_path: Path) -> None:
    required = "type: object\nrequired: [host]\nproperties: {host: {type: string}}\n"
    assert told(package(tmp_path, **{"openapi/settings.yaml": required})) == []


def test_what_lint_lets_through_loads(tmp_path: Path) -> None:
    assert lint(package(tmp_path)) == []
    assert load(tmp_path).definition.name == "webapp"
