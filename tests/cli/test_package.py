from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.packages import package_yaml, tgz_of, write_tree
from windlass.adapters.packages.format.digest import digest_of
from windlass.cli.main import run
from windlass.cli.packages.authoring import app

HOOK = '#!/bin/sh\n[ "$1" = --config ] && echo \'{"configVersion": "v1", "beforeHelm": 1}\'\n'


@pytest.fixture
def good(tmp_path: Path) -> Path:
    files: dict[str, str | bytes] = {"package.yaml": package_yaml(), "values.yaml": "a: 1\n", "hooks/a.sh": HOOK}
    return write_tree(tmp_path / "webapp", files, executable=["hooks/a.sh"])


def test_lint_of_folders_and_archives(good: Path, tmp_path: Path) -> None:
    archive = tgz_of(tmp_path / "webapp.tgz", good, top="webapp")
    result = CliRunner().invoke(app, ["lint", str(good), str(archive)])
    assert result.exit_code == 0
    assert result.stdout == f"{good}: ok\n{archive}: ok\n"


def test_lint_tells_file_and_line_and_fails(good: Path) -> None:
    (good / "values.yaml").write_text("a: 1\nb: [\n")
    result = CliRunner().invoke(app, ["lint", str(good)])
    assert result.exit_code == 1
    assert f"{good}/values.yaml:3: " in result.stdout
    assert result.stderr == "1 problem\n"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("#!/bin/sh\necho 'configVersion: v1'\necho 'schedule: []'\n", "does not serve this binding"),
        (
            "#!/bin/sh\necho 'configVersion: v1'\necho 'kubernetes: [{kind: Pod, jqFilter: .a |}]'\n",
            "kubernetes[0].jqFilter: jq filter '.a |': not valid",
        ),
        ("#!/bin/sh\nexit 3\n", "hooks/a.sh --config"),
        ("#!/no/such/interpreter\n", "hooks/a.sh --config"),
    ],
)
def test_lint_asks_hooks_for_their_bindings(good: Path, script: str, says: str) -> None:
    (good / "hooks/a.sh").write_text(script)
    result = CliRunner().invoke(app, ["lint", str(good)])
    assert result.exit_code == 1
    assert f"{good}/hooks/a.sh: " in result.stdout
    assert says in result.stdout


def test_lint_of_what_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(b"no archive")
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["lint", *(str(tmp_path / name) for name in ("x.tgz", "empty", "missing"))])
    assert result.exit_code == 1
    assert "is not a whole gzipped tar" in result.stdout
    assert "package.yaml: is missing" in result.stdout
    assert "cannot be read: No such file" in result.stdout
    assert result.stderr == "3 problems\n"


def test_pack_prints_path_digest_and_size(good: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pack", str(good), "-o", str(tmp_path / "out")])
    assert result.exit_code == 0
    archive = tmp_path / "out/webapp-1.0.0.tgz"
    assert result.stdout == f"{archive}  {digest_of(good)}  {archive.stat().st_size} bytes\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["pack", "{tmp}/missing"], 1, "windlass: {tmp}/missing is no folder\n"),
        (["pack", "{tmp}"], 1, "windlass: package.yaml: is missing\n"),
        (["pack", "{good}", "-o", "/proc/nowhere"], 1, "cannot be packed"),
        (["pack"], 2, "Missing argument"),
    ],
)
def test_errors_are_one_line_and_what_to_do(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    filled = [argument.format(tmp=tmp_path, good=good) for argument in arguments]
    with pytest.raises(SystemExit) as caught:
        run(["package", *filled])
    assert caught.value.code == code
    told = capsys.readouterr().err
    assert says.format(tmp=tmp_path) in told
    assert "Traceback" not in told
