"""`windlass status` and `windlass doctor` in narrow and wide terminals."""

from __future__ import annotations

from io import StringIO
from typing import Any, Final

import pytest
from rich.console import Console, RenderableType

from windlass.cli.stack.commands import findings_table, parts_table
from windlass.devstack.doctor import Finding, Level

NAMES: Final = ("temporal", "kube-controller-manager", "kube-apiserver")


def drawn(what: RenderableType, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(what)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines), "\n".join(lines)
    return lines


def part(name: str, restarts: int = 0, state: str = "ready") -> dict[str, Any]:
    address = "https://127.0.0.1:29574"
    return {
        "part": name,
        "state": state,
        "pid": 4194304,
        "address": address,
        "version": "1.36.3",
        "uptime": 3700,
        "restarts": restarts,
    }


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("restarts", [0, 12])
def test_parts_stand_in_columns(width: int, restarts: int) -> None:
    head, *lines = drawn(parts_table([part(name, restarts) for name in NAMES]), width)
    heads = ["PART", "STATE", "PID", "ADDRESS", "VERSION", "UPTIME"] + (["RESTARTS"] if restarts else [])
    assert head.split() == heads
    starts = [head.index(one) for one in heads]
    first = [line for line in lines if line.split()[0] in NAMES]
    assert [line.split()[0] for line in first] == list(NAMES)
    for line in first:
        assert line[starts[2] :].startswith("4194304  https://")
        assert line[starts[4] :].startswith("1.36.3   1h01m")


@pytest.mark.parametrize("width", [80, 160])
def test_findings_are_folded_in_their_column_with_the_advice_below(width: int) -> None:
    found = "1.36.3 (cache: /var/cache/windlass/tools/kube-controller-manager-1.36.3/kube-controller-manager)"
    findings = [
        Finding(subject="kube-controller-manager", level=Level.OK, found=found, advice="not used: another one"),
        Finding(subject="memory", level=Level.PROBLEM, found="1.0 GiB", advice="more of it " * 9),
    ]
    lines = drawn(findings_table(findings), width)
    column = lines[0].index("1.36.3")
    assert all(not line[:column].strip() or line[column - 1] == " " for line in lines)
    text = "".join(line[column:].strip() for line in lines).replace(" ", "")
    assert text.startswith(found.replace(" ", "") + "->notused:anotherone1.0GiB->moreofit")
    assert [line.split()[0] for line in lines if line[:8].strip()] == ["ok", "problem"]
