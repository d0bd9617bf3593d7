"""docs/operators.md and the READMEs of new operators are true: their commands are run, their names are looked up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Final

import pytest

from support.cluster import kubectl
from support.nats import PASSWORD, USER, NatsServer, nats_server
from windlass import controllerruntime, framework, operators
from windlass.adapters.nats import access
from windlass.cli.operator import Kind, rendered
from windlass.controllerruntime.metrics import default_metrics
from windlass.devstack.stack import Stack

PAGE: Final = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
BLOCK: Final = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UP: Final = {Kind.FRAMEWORK: "windlass up --detach", Kind.CONTROLLERRUNTIME: "windlass up --detach --with nats"}
SECONDS: Final = 240
"""A deadline, not a figure: the machine may be loaded."""


SCRIPTS: Final = dict(zip(Kind, BLOCK.findall(PAGE), strict=True))


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats"), secured=True) as running:
        yield running


@pytest.fixture
def environment(stack: Stack, nats: NatsServer, tmp_path: Path) -> dict[str, str]:
    """What `windlass up --detach --with nats` says to export."""
    assert nats.authority is not None
    (tmp_path / "ca.crt").write_bytes(nats.authority.certificate_pem)
    (tmp_path / "password").write_text(PASSWORD)
    return {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), str(stack.tool("kubectl").parent), os.environ["PATH"]]
        ),
        "KUBECONFIG": str(stack.kubeconfig),
        "NATS_URL": f"tls://127.0.0.1:{nats.port}",
        "NATS_USER": USER,
        "NATS_PASSWORD_FILE": str(tmp_path / "password"),
        "NATS_CA": str(tmp_path / "ca.crt"),
    }


def run(script: str, folder: Path, environment: dict[str, str]) -> None:
    """Run a block as a script, but for the stack, which is there; a command that fails ends it."""
    first, _, rest = script.partition("\n")
    assert first.partition("  ")[0] in UP.values()
    ends = "trap 'kill $(jobs -p); wait' EXIT"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{ends}\n{rest}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("kind", Kind)
def test_the_ten_minutes_of_the_page(stack: Stack, environment: dict[str, str], tmp_path: Path, kind: Kind) -> None:
    assert SCRIPTS[kind].startswith(UP[kind])
    try:
        run(SCRIPTS[kind], tmp_path, environment)
        assert "example-web" not in kubectl(stack, "get", "configmap", "-o", "name")
    finally:
        kubectl(stack, "delete", "crd", "websites.example.dev", "--ignore-not-found", "--wait=false")


@pytest.mark.parametrize("kind", Kind)
def test_the_readme_of_a_new_operator(stack: Stack, environment: dict[str, str], tmp_path: Path, kind: Kind) -> None:
    for file, text in rendered(kind, "read-me", "example.dev").items():
        (tmp_path / file).write_text(text)
    (script,) = BLOCK.findall((tmp_path / "README.md").read_text())
    assert script.startswith(UP[kind])
    try:
        run(script, tmp_path, environment)
    finally:
        kubectl(stack, "delete", "crd", "readmes.example.dev", "--ignore-not-found", "--wait=false")


@pytest.mark.parametrize("kind", Kind)
def test_the_page_names_the_files_of_a_new_operator(kind: Kind) -> None:
    line = next(line for line in SCRIPTS[kind].splitlines() if line.startswith("windlass operator new"))
    named = set(line.partition("# ")[2].split(", "))
    assert named == set(rendered(kind, "web-site", "example.dev"))


def test_the_page_names_every_variable_of_the_environment() -> None:
    read = set(re.findall(r'"(NATS_[A-Z_]+)"', Path(access.__file__).read_text()))
    assert set(re.findall(r"NATS_[A-Z_]+[A-Z]", PAGE)) == read


def test_the_page_names_every_metric() -> None:
    named = set(re.findall(r"`((?:operatorkit|workqueue)_\w+)`", PAGE))
    shared = default_metrics()
    families = [family for one in vars(shared).values() for family in one.collect()]
    families += framework.default_metrics().collect()
    # The name of a counter's family lacks its end.
    there = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert named == there


def test_the_page_names_things_that_are_there() -> None:
    faces = (framework, controllerruntime, operators)
    functions = (operators.kubernetes_framework, operators.run, operators.bucket, framework.wrap_with_retry)
    there = {name for face in faces for name in face.__all__}
    there |= {name for face in faces for one in face.__all__ for name in dir(getattr(face, one))}
    there |= {name for one in (*functions, controllerruntime.ControllerRuntime) for name in signature(one).parameters}
    called = set(re.findall(r"`(?:windlass\.\w+\.|runtime\.)?([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b", ours()))
    assert len(called) > 30
    assert {name for name in called if not name.startswith(("operatorkit_", "workqueue_"))} - there == set()


def ours() -> str:
    """Return the page without the columns that tell of other frameworks."""
    sections = re.split(r"^(?=##)", BLOCK.sub("", PAGE), flags=re.MULTILINE)
    return "".join(
        re.sub(r"^\| .* \| ", "", one, flags=re.MULTILINE) if one.startswith("### Coming from") else one
        for one in sections
    )
