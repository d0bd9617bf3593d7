"""The chart as Helm sees it, and Helm's record as we see it; no cluster."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.adapters.helm import manifest
from windlass.adapters.helm.chart import annotated
from windlass.adapters.helm.record import APPLIED, decode, mark_failed
from windlass.adapters.helm.staging import new_folder, staged, unstaged
from windlass.domain.errors import Actor, PermanentError
from windlass.ports.kube import Object


def stage(tmp_path: Path, text: str) -> dict[str, Any]:
    chart = tmp_path / "chart"
    chart.mkdir()
    (chart / "Chart.yaml").write_text(text)
    return yaml.load(annotated(chart, "sha256:abc", name="web"), Loader=yaml.BaseLoader)  # noqa: S506 - texts, lists and maps only


def test_the_chart_is_linked_and_only_its_metadata_is_ours(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "templates" / "a.yaml").write_text("a: b")
    (chart / "Chart.yaml").write_text("name: web\nversion: 1.0.0\n")

    with staged(chart, "name: ours", new_folder(tmp_path)) as folder:
        assert (folder / "templates" / "a.yaml").read_text() == "a: b"
        assert (folder / "Chart.yaml").read_text() == "name: ours"
        assert not (folder / "Chart.yaml").is_symlink()

    assert not folder.exists()
    assert (chart / "templates" / "a.yaml").exists()
    assert (chart / "Chart.yaml").read_text() == "name: web\nversion: 1.0.0\n"


def test_numbers_and_dates_in_metadata_stay_as_written(tmp_path: Path) -> None:
    metadata = stage(tmp_path, "name: web\nversion: 1.10\nappVersion: 2024-01-01\ndeprecated: true\nicon: null\n")

    assert (metadata["version"], metadata["appVersion"]) == ("1.10", "2024-01-01")
    assert metadata["deprecated"] == "true"


def test_the_charts_own_annotations_stay_but_ours_wins(tmp_path: Path) -> None:
    metadata = stage(tmp_path, f"name: web\nannotations: {{team: a, {APPLIED}: forged}}\n")

    assert metadata["annotations"] == {"team": "a", APPLIED: "sha256:abc"}


@pytest.mark.parametrize("text", ["a: [", "- a", "name: web\nannotations: text"])
def test_broken_metadata_is_the_authors(tmp_path: Path, text: str) -> None:
    with pytest.raises(PermanentError, match=r"Chart\.yaml") as caught:
        stage(tmp_path, text)

    assert caught.value.actor is Actor.AUTHOR


def test_a_folder_that_is_no_chart_is_refused(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    chart.mkdir()

    with pytest.raises(PermanentError, match=r"neither Chart\.yaml nor templates"):
        annotated(chart, "", name="x")


def test_what_a_killed_process_staged_is_removed_and_the_package_stays(tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    folder = new_folder(tmp_path)
    with contextlib.ExitStack() as killed:
        killed.enter_context(staged(chart, "", folder))
        killed.pop_all()  # as if the end never came

    unstaged(folder)
    unstaged(folder)

    assert not folder.exists()
    assert (chart / "templates").is_dir()


def secret(content: Any, *, status: str = "deployed") -> Object:
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(content).encode()))).decode()
    metadata = {"name": "sh.helm.release.v1.web.v3", "namespace": "shop", "labels": {"status": status, "version": "3"}}
    return {"metadata": metadata, "data": {"release": packed}}


CONTENT = {
    "version": 3,
    "info": {"status": "pending-upgrade", "description": "Preparing upgrade"},
    "chart": {"metadata": {"name": "web", "version": "1.10.0", "annotations": {APPLIED: "sha256:abc"}}},
    "manifest": "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
    "config": {"big": 12345678901234567890, "text": "grün"},
    "hooks": [{"name": "a"}],
}


def test_a_record_is_read() -> None:
    record = decode(secret(CONTENT))

    assert (record.revision, record.status, record.applied) == (3, "pending-upgrade", "sha256:abc")
    assert (record.chart, record.chart_version, record.has_hooks) == ("web", "1.10.0", True)
    assert [entry.name for entry in record.entries] == ["a"]


def test_a_record_of_somebody_else_says_nothing_about_us() -> None:
    record = decode(secret({"version": 1, "info": {"status": "deployed"}, "chart": {"metadata": {}}}))

    assert (record.applied, record.entries, record.has_hooks) == ("", (), False)


def test_marking_as_failed_changes_the_status_and_nothing_else() -> None:
    marked = mark_failed(secret(CONTENT, status="pending-upgrade"), "why")

    assert marked["metadata"]["labels"] == {"status": "failed", "version": "3"}
    unpacked = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(marked["data"]["release"]))))
    assert unpacked == {**CONTENT, "info": {"status": "failed", "description": "why"}}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"release": "not base64!"},
        {"release": base64.b64encode(base64.b64encode(b"not gzip")).decode()},
        {"release": base64.b64encode(base64.b64encode(gzip.compress(b"{}")[:-4])).decode()},
        {"release": base64.b64encode(base64.b64encode(gzip.compress(b"[]"))).decode()},
        {"release": base64.b64encode(base64.b64encode(gzip.compress(b"{}"))).decode()},
    ],
)
def test_a_damaged_record_is_named_with_the_way_out(data: dict[str, str]) -> None:
    with pytest.raises(PermanentError, match=r"sh\.helm\.release\.v1\.web\.v3 in shop.*delete that Secret"):
        decode({**secret(CONTENT), "data": data})


def test_a_record_that_would_fill_memory_is_damaged() -> None:
    bomb = base64.b64encode(base64.b64encode(gzip.compress(b" " * (129 * 1024 * 1024)))).decode()

    with pytest.raises(PermanentError):
        decode({**secret(CONTENT), "data": {"release": bomb}})


def test_names_in_a_manifest_are_taken_as_written() -> None:
    text = """
---
# nothing but a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: 123, namespace: prod}
data: {a: =}
---
apiVersion: v1
kind: Secret
metadata: {generateName: a-}
---
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, annotations: {helm.sh/resource-policy: keep}}}
"""
    found = [(entry.kind, entry.namespace, entry.name, entry.kept) for entry in manifest.parse(text)]

    assert found == [
        ("ConfigMap", "prod", "123", False),
        ("Deployment", "", "web", False),
        ("PersistentVolumeClaim", "", "data", True),
    ]
