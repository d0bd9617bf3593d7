"""``windlass package list|versions|show|pull|push`` against a real registry and a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from support.packages import package_yaml, tgz_of, write_tree
from support.registry import PASSWORD, USER, RunningRegistry, registry
from windlass.adapters.packages.format.digest import digest_of
from windlass.cli.main import run
from windlass.cli.packages.authoring import app
from windlass.domain.errors import PermanentError

SCHEMA = "type: object\nproperties: {replicas: {type: integer}}\n"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with registry(tmp_path_factory.mktemp("registry"), secured=True) as running:
        yield running


def package(root: Path, version: str) -> Path:
    files: dict[str, str | bytes] = {
        "package.yaml": package_yaml(version=version),
        "openapi/settings.yaml": SCHEMA,
        "hooks/a.sh": "#!/bin/sh\n",
    }
    return write_tree(root / "webapp" / version, files, executable=["hooks/a.sh"])


def invoke(*words: str | Path, stdin: str = "") -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder from a thread: commands have an event loop of their own."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_address_is_followed_wherever_its_index_points(tmp_path: Path) -> None:
    """Unlike a worker, who runs the command reaches nothing that they do not reach anyhow."""
    tgz_of(tmp_path / "elsewhere/webapp-1.0.0.tgz", package(tmp_path / "built", "1.0.0"), top="webapp")
    (tmp_path / "index").mkdir()
    with serving(tmp_path / "elsewhere") as other, serving(tmp_path / "index") as url:
        entry = {"version": "1.0.0", "urls": [f"{other}/webapp-1.0.0.tgz"]}
        (tmp_path / "index/index.yaml").write_text(json.dumps({"entries": {"webapp": [entry]}}))
        invoke("pull", url, "webapp", "--version", "1.0.0", "--insecure", "-o", tmp_path / "out")
    assert (tmp_path / "out/webapp/1.0.0/package.yaml").is_file()


def test_a_package_goes_to_a_registry_and_back(
    secured: RunningRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secured.authority is not None
    ca = tmp_path / "ca.crt"
    ca.write_bytes(secured.authority.certificate_pem)
    place = f"oci://{secured.host}/cli"
    built = package(tmp_path / "built", "1.0.0")
    flags = ("--ca-file", ca, "--username", USER, "--password-stdin")
    told = invoke("push", built, place, *flags, stdin=f"{PASSWORD}\n")
    assert told.startswith(f"{place}/webapp:1.0.0  sha256:")

    docker = write_tree(tmp_path / "docker", {"config.json": json.dumps({"auths": {secured.host: {"auth": AUTH}}})})
    monkeypatch.setenv("DOCKER_CONFIG", str(docker))
    invoke("push", package(tmp_path / "built", "1.1.0"), place, "--ca-file", ca)
    assert invoke("versions", place, "webapp", "--ca-file", ca) == "1.0.0\n1.1.0\n"
    [listed] = json.loads(invoke("list", place, "--ca-file", ca, "-o", "json"))
    assert listed == {"name": "webapp", "version": "1.1.0", "versions": 2}
    shown = json.loads(invoke("show", place, "webapp", "--ca-file", ca, "--version", "~1.0", "-o", "json"))
    assert (shown["version"], shown["hooks"], shown["settings"]) == ("1.0.0", ["hooks/a.sh"], ["replicas"])
    invoke("pull", place, "webapp", "--version", "1.0.0", "-o", tmp_path / "pulled", "--ca-file", ca)
    assert digest_of(tmp_path / "pulled/webapp/1.0.0") == digest_of(built) == shown["digest"]
    (tmp_path / "pulled/webapp/1.0.0/new").write_text("folders that were pulled can be written into")


AUTH = "cm9ib3Q6czNjcmV0"  # base64 of robot:s3cret


def test_a_folder_is_a_repository_too(tmp_path: Path) -> None:
    package(tmp_path / "built", "1.0.0")
    folder = f"{tmp_path}/built"
    assert invoke("versions", folder, "webapp") == "1.0.0\n"
    assert invoke("list", folder).split() == ["PACKAGE", "NEWEST", "VERSIONS", "webapp", "1.0.0", "1"]
    assert "replicas" in invoke("show", folder, "webapp")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["versions", "./nothing", "webapp"], "there is no folder"),
        (["list", "ftp://host"], "is no repository"),
        (["list", "http://127.0.0.1:9"], "does not start with https://"),
        (["push", "nothing", "oci://host/x"], "does not exist"),
    ],
)
def test_what_goes_wrong_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        run(["package", *words])
    assert says in capsys.readouterr().err


def test_what_is_no_registry_takes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = package(tmp_path / "built", "1.0.0")
    with pytest.raises(SystemExit, match="1"):
        run(["package", "push", str(built), f"{tmp_path}/built"])
    assert "is no OCI registry" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "stdin", "says"),
    [
        (("list", "oci://"), "", "oci:// names no host"),
        (("list", "/no/such/"), "", "there is no folder /no/such/"),
        (("list", "https://127.0.0.1:1/x"), "", "something answers there; try again"),
        (("list", "https://127.0.0.1:1/x", "-u", "ann"), "", "no password on standard input"),
        (("list", "https://127.0.0.1:1/x", "--password-stdin"), "hush\n", "there is no user"),
        (("show", "./", "webapp", "--version", "1.x.y"), "", "--version"),
        (("show", "./", "webapp", "--version", "9"), "", "ask for a version that is there"),
    ],
)
def test_what_cannot_be_is_told_to_a_person(
    words: tuple[str, ...],
    stdin: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", StringIO(stdin))
    with pytest.raises(SystemExit) as ended:
        run(["package", *words])
    assert ended.value.code in {1, 2}
    told = capsys.readouterr().err
    assert says in told
    assert "it is tried again" not in told
    assert "spec." not in told


def test_an_empty_repository_says_so(tmp_path: Path) -> None:
    assert invoke("list", f"{tmp_path}/") == f"No packages in {tmp_path}/.\n"
    assert json.loads(invoke("list", f"{tmp_path}/", "-o", "json")) == []


def test_the_limits_of_workers_hold_for_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "1.0.0")
    monkeypatch.setenv("WINDLASS_MAX_PACKAGE_FILES", "2")
    result = CliRunner().invoke(app, ["show", f"{tmp_path}/", "webapp"])
    assert isinstance(result.exception, PermanentError)
    assert "WINDLASS_MAX_PACKAGE_FILES" in result.exception.hint
