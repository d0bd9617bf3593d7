"""What a shell offers at TAB, and kubectl for its plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from windlass.cli import completion
from windlass.cli.completion import SCRIPTS, Shell, answer, candidates
from windlass.cli.main import run
from windlass.cli.registry import COMMANDS


def offered(*words: str) -> list[str]:
    """The values for the last word."""
    return [line.partition("\t")[0] for line in answer(words).splitlines()[:-1]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path | None]]:
    """A cluster with two packages; returns what was asked of it."""
    asked: list[tuple[str, Path | None]] = []

    async def packages(namespace: str, data_dir: Path | None) -> list[tuple[str, str]]:
        asked.append((namespace, data_dir))
        return [("web", "webapp 1.0.0"), ("vault", "vault 2.0.0")]

    async def namespaces(data_dir: Path | None) -> list[tuple[str, str]]:
        asked.append(("", data_dir))
        return [("shop", ""), ("default", "")]

    monkeypatch.setattr(completion, "_packages", packages)
    monkeypatch.setattr(completion, "_namespaces", namespaces)
    return asked


def test_commands_with_what_they_do() -> None:
    assert offered("") == list(COMMANDS)
    assert answer(["hist"]) == "history\tTell what happened to one package, by whom and why\n:4\n"
    assert offered("--debug", "hist") == ["history"]
    assert offered("nonsense", "") == []


def test_names_of_packages_in_the_namespace_that_is_typed(cluster: list[tuple[str, Path | None]]) -> None:
    assert answer(["describe", "-n", "shop", ""]) == "web\twebapp 1.0.0\nvault\tvault 2.0.0\n:4\n"
    assert offered("tree", "--namespace=shop", "--data-dir", "/d", "v") == ["vault"]
    assert offered("retry", "--reason", "it is back", "") == ["web", "vault"]
    assert offered("get", "-A", "w") == ["web"]
    assert cluster == [("shop", None), ("shop", Path("/d")), ("", None), ("", None)]


def test_nothing_behind_the_last_argument(cluster: list[tuple[str, Path | None]]) -> None:
    assert offered("describe", "web", "") == []
    assert cluster == []


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["get", "-n", ""], ["shop", "default"]),
        (["get", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["get", "-o", "js"], ["json"]),
        (["worker", "--role", "w"], ["worker", "workflows", "watcher"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["package", "p"], ["pull", "push", "pack"]),
        (["package", "nonsense", ""], []),
        (["history", "web", "--s"], ["--since"]),
        (["tree", "--wa"], ["--watch"]),
    ],
)
def test_values_of_options_and_subcommands(words: list[str], found: list[str]) -> None:
    assert offered(*words) == found


@pytest.mark.parametrize(
    "words", [["apply", "-f", ""], ["package", "lint", ""], ["package", "lint", "one", ""], ["get", "--data-dir", ""]]
)
def test_files_are_left_to_the_shell(words: list[str]) -> None:
    assert answer(words) == ":0\n"
    assert candidates(words[:-1], words[-1]).files


def test_parts_of_the_stack_are_those_with_a_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "etcd.log").touch()
    assert offered("logs", "--data-dir", str(tmp_path), "") == ["etcd"]


def test_no_cluster_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert answer(["describe", "-n", "shop", ""]) == ":4\n"


@pytest.mark.parametrize("shell", list(Shell))
def test_a_script_for_every_shell(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["completion", shell.value])
    assert caught.value.code == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


BASH: Final = """
windlass() { "$PYTHON" -m windlass "$@"; }
COMP_WORDS=(windlass get --output ''); COMP_CWORD=3
_windlass
printf '%s\\n' "${COMPREPLY[@]}"
COMP_WORDS=(windlass apply -f "$FOLDER/a"); COMP_CWORD=3
_windlass
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_offers_it(tmp_path: Path) -> None:
    (tmp_path / "app one.yaml").touch()
    env = {**os.environ, "PYTHON": sys.executable, "FOLDER": str(tmp_path)}
    command = ["bash", "-c", SCRIPTS[Shell.BASH] + BASH]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["table", "wide", "json", "yaml", str(tmp_path / "app one.yaml")]


def test_kubectl_calls_it_by_another_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-windlass", "get", "--help"])
    with pytest.raises(SystemExit):
        run()
    assert capsys.readouterr().out.startswith("Usage: kubectl windlass get [OPTIONS]")
    monkeypatch.setattr(sys, "argv", ["kubectl-windlass"])
    with pytest.raises(SystemExit):
        run()
    assert capsys.readouterr().out.startswith("Usage: kubectl windlass ")
