"""The guard itself: it must see what would break a replay, and nothing else."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from textwrap import dedent

import pytest
from replay.fingerprint import Fingerprint, fingerprints
from replay.guard import changes, document, load, main, report, unanswered
from replay.paths import WORKFLOWS

SOURCE = dedent(
    '''
    """A workflow with a bit of everything."""
    import asyncio
    from datetime import timedelta
    from temporalio import workflow
    from temporalio.workflow import sleep as nap

    @workflow.defn(name="Sample")
    class SampleWorkflow:
        def __init__(self) -> None:
            self._steps = {"a": self._first, "b": self._second}

        @workflow.run
        async def run(self, start: str) -> None:
            workflow.logger.info("starting")
            while self._more():
                await self._steps[start]()
            await helper(self)

        @workflow.signal
        async def changed(self, fact: str) -> None:
            await workflow.execute_activity(note, fact)

        @workflow.query
        def status(self) -> str:
            return "fine"

        def _more(self) -> bool:
            return workflow.now() is not None

        async def _first(self) -> None:
            await workflow.execute_activity(Helm.upgrade, 1, start_to_close_timeout=timedelta(seconds=9))

        async def _second(self) -> None:
            if workflow.patched("quicker"):
                await workflow.execute_local_activity(Helm.check, 1)
            else:
                await nap(3)

    async def helper(of: SampleWorkflow) -> None:
        async def one(key: str) -> None:
            await workflow.execute_child_workflow("Child", key)
        await asyncio.gather(*(one(key) for key in "abc"))
        try:
            await workflow.wait_condition(lambda: True, timeout=timedelta(seconds=1))
        except TimeoutError:
            workflow.upsert_search_attributes([])
        match of:
            case None:
                await workflow.get_external_workflow_handle("x").signal("fact")
            case _:
                workflow.continue_as_new("again")
    '''
)


def _of(source: str, tmp_path: Path) -> dict[str, Fingerprint]:
    folder = tmp_path / "workflows"
    folder.mkdir(exist_ok=True)
    (folder / "sample.py").write_text(source)
    return fingerprints(folder)


def test_the_outline_shows_commands_in_order_below_their_branches(tmp_path: Path) -> None:
    found = _of(SOURCE, tmp_path)["Sample"]
    assert list(found.outline) == dedent(
        """\
        init __init__
          helper 1
            execute_activity Helm.upgrade
          helper 2
            patched quicker
            if
              execute_local_activity Helm.check
            else
              sleep
        run
          helper 1
            loop
              helper 2
                execute_child_workflow Child
            try
              timer wait_condition
            except
              upsert_search_attributes
            case
              get_external_workflow_handle
              signal a handle
            case
              continue_as_new
        signal changed
          execute_activity note"""
    ).split("\n")
    assert found.patches == ("patched quicker",)


HARMLESS = {
    "rename a helper": ("_second", "_otherwise"),
    "log": ('info("starting")', 'info("now we start")'),
    "longer timeout": ("seconds=9", "seconds=90"),
    "query": ('return "fine"', 'return "very fine"'),
    "wait without a timer": ("workflow.logger", "await workflow.wait_condition(lambda: True)\n        workflow.logger"),
}


@pytest.mark.parametrize("edit", HARMLESS.values(), ids=HARMLESS.keys())
def test_edits_that_change_no_command_leave_the_outline(edit: tuple[str, str], tmp_path: Path) -> None:
    before, edited = _of(SOURCE, tmp_path), SOURCE.replace(*edit)
    assert edited != SOURCE
    assert _of(edited, tmp_path) == before


HARMFUL = {
    "another activity": ("Helm.upgrade", "Helm.install"),
    "other kind of activity": ("execute_local_activity", "execute_activity"),
    "activity dropped": ("await workflow.execute_activity(note, fact)", "pass"),
    "timer added": ('workflow.logger.info("starting")', "await asyncio.sleep(1)"),
    "timer dropped": (", timeout=timedelta(seconds=1)", ""),
    "action": ("while self._more():", "await helper(self)\n        while self._more():"),
    "patch id": ('"quicker"', '"slower"'),
    "patch dropped": ('if workflow.patched("quicker")', "if True"),
    "into a loop": ("await helper(self)", "while True: await helper(self)"),
    "child": ('"Child"', '"Sibling"'),
    "attributes": ("workflow.upsert_search_attributes([])", "pass"),
    "signal": ('.signal("fact")', ""),
    "continue as new": ('workflow.continue_as_new("again")', "pass"),
    "cancel": ("workflow.upsert_search_attributes([])", "of.task.cancel()"),
    "bounded by asyncio": ("await nap(3)", "async with asyncio.timeout(3): await nap(3)"),
    "through the dispatch table": ('"b": self._second', '"b": self._first'),
}


@pytest.mark.parametrize("edit", HARMFUL.values(), ids=HARMFUL.keys())
def test_edits_that_may_break_a_replay_are_seen_and_explained(edit: tuple[str, str], tmp_path: Path) -> None:
    accepted_file = tmp_path / "fingerprints.json"
    accepted_file.write_text(document(_of(SOURCE, tmp_path), {"Sample": {"path": "1"}}))
    accepted = load(accepted_file)
    assert not changes(_of(SOURCE, tmp_path), accepted)
    edited = SOURCE.replace(*edit)
    assert edited != SOURCE
    code = _of(edited, tmp_path)
    text = report(changes(code, accepted))
    assert "workflow Sample changed" in text
    assert "workflow.patched(" in text
    assert "WINDLASS_RECORD_HISTORIES=1" in text
    assert "replay.guard --accept" in text


def test_acceptance_wants_a_new_patch_marker_or_a_new_history(tmp_path: Path) -> None:
    histories = {"Sample": {"install": "1"}}
    (tmp_path / "accepted.json").write_text(document(_of(SOURCE, tmp_path), histories))
    accepted = load(tmp_path / "accepted.json")

    edited = _of(SOURCE.replace("Helm.upgrade", "Helm.install"), tmp_path)
    assert unanswered(edited, accepted, histories) == ["Sample"]
    assert unanswered(edited, accepted, {"Sample": {"install": "recorded again"}}) == []
    assert unanswered(edited, accepted, {"Sample": {"install": "1", "adopt": "2"}}) == []
    assert unanswered(edited, accepted, {"Other": {"adopt": "2"}}) == ["Sample"]

    patched = SOURCE.replace("await nap(3)", 'if workflow.patched("no-nap"): await workflow.sleep(4)')
    assert unanswered(_of(patched, tmp_path), accepted, histories) == []


def test_the_command_refuses_without_evidence_and_leaves_the_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _of(SOURCE, tmp_path)
    baseline = tmp_path / "fingerprints.json"
    where = {"workflows": tmp_path / "workflows", "baseline": baseline}
    assert main(["--accept"], **where) == 1
    assert "Not accepted: Sample" in capsys.readouterr().err
    assert not baseline.exists()
    baseline.write_text(document(_of(SOURCE, tmp_path), {}))
    _of(SOURCE.replace("await nap(3)", 'workflow.patched("new")'), tmp_path)
    assert main([], **where) == 1
    assert main(["--accept"], **where) == 0
    assert main([], **where) == 0


@pytest.mark.parametrize("name", sorted(fingerprints(WORKFLOWS)))
def test_an_edit_of_each_real_workflow_is_seen(name: str, tmp_path: Path) -> None:
    before = fingerprints(WORKFLOWS)
    folder = Path(shutil.copytree(WORKFLOWS, tmp_path / "workflows"))
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef) and node.name == "run":
                node.body.insert(0, ast.parse("await workflow.sleep(1)").body[0])
        file.write_text(ast.unparse(tree))
    after = fingerprints(folder)
    outline = before[name].outline
    first = outline.index("run") + 1
    assert after[name].outline == (*outline[:first], "  sleep", *outline[first:])
