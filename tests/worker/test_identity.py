"""An identity is taken again only where the process that had it before is known to be dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.domain.errors import PermanentError
from windlass.worker import identity
from windlass.worker.identity import claimed


def whose(folder: Path, part: str = "worker") -> str:
    with claimed(folder, part) as found:
        return found


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    assert whose(tmp_path) == whose(tmp_path)


def test_a_new_folder_of_the_same_name_is_another_process(tmp_path: Path) -> None:
    before = whose(tmp_path)
    (tmp_path / "worker.lock").unlink()
    assert whose(tmp_path) != before


def test_the_same_folder_on_another_machine_is_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = whose(tmp_path)
    elsewhere = tmp_path / "boot_id"
    elsewhere.write_text("another machine, or the same one after a reboot")
    monkeypatch.setattr(identity, "BOOT_ID", elsewhere)
    assert whose(tmp_path) != before


def test_parts_of_one_folder_are_told_apart(tmp_path: Path) -> None:
    assert whose(tmp_path, "worker") != whose(tmp_path, "watcher")


def test_nobody_else_gets_it_while_it_is_held(tmp_path: Path) -> None:
    with claimed(tmp_path, "worker"), pytest.raises(PermanentError, match="another worker process"):
        whose(tmp_path)
