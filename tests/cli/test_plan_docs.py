"""Every command in docs/servicesets.md prints what the page says."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from windlass.cli.main import run
from windlass.domain.servicesets.rollout.policy import RolloutPolicy
from windlass.domain.servicesets.rollout.windows import Window, next_opening

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "servicesets.md").read_text()
CALLS: Final = re.findall(r"^```console\n\$ windlass (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("line", "printed"), CALLS, ids=[line for line, _ in CALLS])
def test_a_command_prints_what_the_page_says(
    line: str, printed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    words = [word.replace("docs/images/", f"{tmp_path}/") for word in shlex.split(line)]
    with pytest.raises(SystemExit) as end:
        run(words)
    assert not end.value.code
    assert [row.rstrip() for row in capsys.readouterr().out.splitlines()] == printed.splitlines()


def test_there_are_commands_on_the_page() -> None:
    assert len(CALLS) >= 3


def test_the_page_names_every_field_of_a_policy_with_its_default() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", PAGE, re.MULTILINE)
    named = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    fields = {field.alias or name: field for name, field in RolloutPolicy.model_fields.items()}
    assert named.keys() >= fields.keys()
    written = RolloutPolicy().model_dump(by_alias=True, mode="json")
    for name in ("maxConcurrent", "failureBudget", "soak", "approval"):
        assert named[name] == f"`{written[name]}`"
    assert named["waves"] == f"`[{written['waves'][0]}]`"


@pytest.mark.parametrize("row", re.findall(r"^\| (`30 [2*] .*)\|$", PAGE, re.MULTILINE))
def test_windows_open_when_the_page_says(row: str) -> None:
    schedule, *cells = (cell.strip(" `") for cell in row.split("|"))
    window = Window.model_validate({"schedule": schedule, "duration": "1m", "timeZone": "Europe/Berlin"})
    for cell, day in zip(cells, (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)), strict=True):
        walls, instants = re.fullmatch(r"(.*) \((.*) UTC\)", cell).groups()  # type: ignore[union-attr] - as written
        expected = instants.split(", ")
        at = day - timedelta(hours=1) if expected[0].startswith("23") else day
        found: list[datetime] = []
        for _ in expected:
            opening = next_opening(window, at)
            assert opening is not None
            at = opening.start
            found.append(at)
        assert [f"{one:%H:%M}" for one in found] == expected
        assert [f"{one.astimezone(ZoneInfo('Europe/Berlin')):%H:%M}" for one in found] == walls.split(", ")
