"""Documents of others are read by the bounded reader and nothing else."""

from __future__ import annotations

import ast
import re

import pytest
from architecture.tree import modules, parsed

LOADING = re.compile(
    r"\b(?:json\.loads?|json\.JSONDecoder|yaml\.(?:\w*_)?load\w*|yaml\.(?:compose|parse|scan)\w*|yaml\.\w*Loader"
    r"|model_validate_json|tomllib\.loads?)$"
)
OUR_OWN = {
    "windlass.domain.text.json_reading": "is the reader",
    "windlass.adapters.helm.protocol": "lines between a worker and its own child",
    "windlass.adapters.runner.protocol": "bounded messages between a worker and its runner",
    "windlass.adapters.jq.child": "lines from a worker to its own child",
    "windlass.runtime.history": "markers that the SDK writes into histories, decoded under our key",
    "windlass.cli.demo.history": "the same",
    "windlass.adapters.kube.records": "records under our own digest, which is checked first",
    "windlass.adapters.processes.journal": "a file of this process's predecessor, in a folder of its own",
    "windlass.temporal.converter": "payloads of our own types, opened with our key first",
    "windlass.devstack.control": "a file of the embedded stack",
    "windlass.devstack.state": "a file of the embedded stack",
    "windlass.devstack.ports": "a file of the embedded stack",
    "windlass.devstack.plan": "a file of the embedded stack",
}
"""Modules that read JSON or YAML by themselves, and why: nobody else writes what they read."""

EVENTS = {"windlass.domain.text.yaml_reading", "windlass.domain.text.yaml_places"}
"""Modules that may use libyaml's parser; both bound depth and directives."""


def loads(name: str) -> list[str]:
    uses = (ast.unparse(node) for node in ast.walk(parsed(modules()[name])) if isinstance(node, ast.Attribute))
    return sorted({use for use in uses if LOADING.search(use)})


@pytest.mark.parametrize("name", sorted(set(modules()) - set(OUR_OWN)))
def test_what_others_wrote_is_read_by_the_bounded_reader(name: str) -> None:
    assert loads(name) == [], f"{name}: use windlass.domain.text.documents"


@pytest.mark.parametrize("name", sorted(OUR_OWN))
def test_exceptions_are_still_needed(name: str) -> None:
    assert loads(name) != []


def test_the_parser_of_libyaml_is_used_by_the_reader_only() -> None:
    found = {
        name
        for name in modules()
        for node in ast.walk(parsed(modules()[name]))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("yaml") and node.module != "yaml"
    }
    assert found <= EVENTS
