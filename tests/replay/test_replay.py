from __future__ import annotations

from pathlib import Path

import pytest
from replay import guard
from replay.fingerprint import fingerprints
from replay.paths import BASELINE, HISTORIES, WORKFLOWS, listed, recorded
from replay.replaying import read, replay, workflow_classes


def _names(histories: dict[str, dict[str, str]]) -> set[str]:
    return {name for of_type in histories.values() for name in of_type}


def test_every_path_has_a_history_and_every_history_a_path() -> None:
    names = listed()
    assert len(names) == len(set(names)), "tests/replay/PATHS names a path twice"
    missing, stray = set(names) - _names(recorded()), _names(recorded()) - set(names)
    assert not missing, f"run WINDLASS_RECORD_HISTORIES=1 .venv/bin/pytest tests/e2e: no history of {sorted(missing)}"
    assert not stray, f"add to tests/replay/PATHS or delete: histories of {sorted(stray)}"


def test_every_workflow_type_has_a_history_and_every_history_a_type() -> None:
    assert set(fingerprints(WORKFLOWS)) == set(recorded())


@pytest.mark.parametrize("file", sorted(HISTORIES.glob("*.json")), ids=lambda file: file.stem)
async def test_every_history_replays(file: Path) -> None:
    await replay(read(file), workflow_classes())


def test_no_workflow_changed_its_commands_unnoticed() -> None:
    found = guard.changes(fingerprints(WORKFLOWS), guard.load(BASELINE))
    assert not found, guard.report(found)
