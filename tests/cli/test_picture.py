"""The drawing of terminals for the documentation."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", IMAGES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_drawn_over_is_not_in_the_picture(draw: ModuleType) -> None:
    data = (
        b"first\r\n\x1b[31mworking\x1b[0m\x1b[2K\r\x1b[1;32mdone\x1b[0m "
        + "ü ✓\r\n".encode()
        + b"x\r\n" * 60
        + b"last\r\n"
    )
    lines = draw.lines(data)
    assert [one.plain for one in lines[:3]] == ["first", "done ü ✓", "x"]
    assert lines[-1].plain == "last"
    assert len(lines) == 63
    assert [one.plain for one in draw.since(lines, "las")] == ["last"]
    svg = draw.drawing(draw.since(lines, "done")[:2], "title")
    assert "working" not in svg
    assert svg.count("<text") >= 3
    assert "@font-face" not in svg


def test_a_picture_of_a_real_command(tmp_path: Path) -> None:
    file = tmp_path / "help.svg"
    command = [sys.executable, str(IMAGES / "draw.py"), str(file), sys.executable, "-m", "windlass", "--help"]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert "kubectl" not in file.read_text()
    assert "history" in file.read_text()
    failing = [*command[:3], sys.executable, "-m", "windlass", "nonsense"]
    assert subprocess.run(failing, capture_output=True, timeout=60, check=False).returncode == 2


def test_the_picture_of_the_demo_is_there_and_says_nothing_of_the_machine() -> None:
    svg = (IMAGES / "demo.svg").read_text()
    assert "Every&#160;step&#160;was&#160;seen&#160;to&#160;have&#160;happened" in svg
    assert str(Path.home()) not in svg
