"""`Control` through the status of an object and back, and what the state Secret keeps for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.contracts import control as controls
from windlass.contracts import record as records
from windlass.contracts.objects import Application, PackageStatus
from windlass.contracts.record import PackageRecord, RevisionRecord
from windlass.domain.lifecycle.policy import Cause, Control, Good, Held, Rejected
from windlass.domain.lifecycle.steps import Hold, Next, Step
from windlass.domain.packages.model import Artifact, Source

SOURCE = Source(repository="shelf", package="web", version="1.0.0")
GOOD = Good(revision=3, artifact=Artifact(source=SOURCE, digest="sha256:1"), settings="s1", at=100.0)
CONTROL = Control(
    good=(GOOD,),
    rejected=Rejected(
        source=replace(SOURCE, version="2.0.0"), settings="s2", step="Load", reason="LoadFailed", message="m", at=200.0
    ),
    target=GOOD,
    held=Held(step="Load", cause=Cause.CANCELLED, reason="Cancelled", message="by ada", at=300.0),
    breakpoints=(Step.UPGRADE_RELEASE, Step.AFTER_HELM),
)
WAIT = Next(step=Step.WAIT, hold=Hold.HELD, blocked="Load")


def application(control: Control, step: Next = WAIT, *, generation: int = 4) -> Application:
    status = PackageStatus(
        observed_generation=4,
        held=controls.held(control, step),
        breakpoints=[one.value for one in control.breakpoints],
        rejected=controls.rejected(control),
        revisions=controls.revisions(control),
    )
    spec = {"package": {"repository": "shelf", "name": "web", "version": "2.0.0"}}
    written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Application.model_validate({"metadata": {"generation": generation}, "spec": spec, "status": written})


def test_what_status_says_is_read_back() -> None:
    assert controls.control_of(application(CONTROL)) == CONTROL
    assert controls.control_of(application(Control())) == Control()


def test_a_hold_does_not_outlive_a_change_that_nobody_saw() -> None:
    found = controls.control_of(application(CONTROL, generation=5))
    assert found == replace(CONTROL, held=None)


def test_a_breakpoint_that_holds_is_shown_and_no_hold_of_its_own() -> None:
    here = Next(step=Step.WAIT, hold=Hold.BREAKPOINT, blocked="UpgradeRelease")
    told = application(replace(CONTROL, held=None), here)
    assert told.status is not None
    assert told.status.held is not None
    assert (told.status.held.step, told.status.held.cause) == ("UpgradeRelease", Cause.BREAKPOINT)
    assert controls.control_of(told) == replace(CONTROL, held=None)


def test_a_step_of_a_newer_version_is_no_breakpoint_here() -> None:
    told = application(CONTROL).to_object()
    told["status"]["breakpoints"] = ["UpgradeRelease", "Levitate"]
    assert controls.control_of(Application.model_validate(told)).breakpoints == (Step.UPGRADE_RELEASE,)


# -- the state Secret --------------------------------------------------------------------------------------------------


def made(mark: str, **fields: Any) -> RevisionRecord:
    return RevisionRecord(mark=mark, **{"settings": {"mark": mark}, "settings_digest": "s", **fields})


def record(*marks: str) -> PackageRecord:
    return PackageRecord(uid="u1", revisions=tuple(made(mark) for mark in marks))


def test_the_good_revisions_are_kept_and_the_one_that_is_made() -> None:
    found = record("a", "b", "c").with_revision(made("d"), keep={"a", "c"})
    assert [one.mark for one in found.revisions] == ["a", "c", "d"]
    again = found.with_revision(made("a", settings={"new": 1}), keep={"a", "c"})
    assert [one.mark for one in again.revisions] == ["c", "a"]
    assert again.revision("a") == made("a", settings={"new": 1})
    assert again.revision("d") is None


def test_the_same_revision_made_again_changes_nothing() -> None:
    before = record("a", "b")
    assert before.with_revision(made("b"), keep={"a"}) == before


def test_big_settings_push_the_oldest_out() -> None:
    big = {"blob": "x" * (records.REVISIONS_BYTES // 3)}
    before = PackageRecord(uid="u1", revisions=tuple(made(mark, settings=big) for mark in "abc"))
    found = before.with_revision(made("d", settings=big), keep={"a", "b", "c"})
    assert [one.mark for one in found.revisions] == ["c", "d"]
    huge = {"blob": "x" * (2 * records.REVISIONS_BYTES)}
    assert [one.mark for one in found.with_revision(made("e", settings=huge), keep={"d"}).revisions] == ["e"]
