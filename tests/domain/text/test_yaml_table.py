"""Our reader beside what Helm and Kubernetes make of YAML; the table is held against both programs in adapters/helm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.domain.text.documents import DocumentError, parse_helm

TABLE: list[dict[str, Any]] = json.loads(Path(__file__).with_name("yaml_table.json").read_text())


@pytest.mark.parametrize("row", [row for row in TABLE if "value" in row], ids=lambda row: row["text"][:40])
def test_what_helm_reads_is_read_alike(row: dict[str, Any]) -> None:
    found = parse_helm(row["text"])

    assert json.dumps(found or {}, sort_keys=True) == json.dumps(row["value"] or {}, sort_keys=True)


@pytest.mark.parametrize("row", [row for row in TABLE if "error" in row], ids=lambda row: row["text"][:40])
def test_what_helm_refuses_is_refused(row: dict[str, Any]) -> None:
    if "ours" in row:  # libyaml reads a little more than Helm
        assert parse_helm(row["text"]) == row["ours"]
        return
    try:
        found = parse_helm(row["text"])
    except DocumentError:
        return
    assert not isinstance(found, dict), "Helm wants a mapping; we leave that to whoever asked"
