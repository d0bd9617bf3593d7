from __future__ import annotations

from dataclasses import replace

import pytest
from domain.lifecycle.lives import BYE, FIRST, SECOND, artifact, loaded, ready, running, source, walk, wanted

from windlass.domain.lifecycle.steps import (
    Desired,
    Gate,
    Hold,
    Next,
    Progress,
    Run,
    Scope,
    Step,
    Teardown,
    content_to_load,
    next_step,
)
from windlass.domain.lifecycle.transitions import Result, begin, begin_removal, done
from windlass.domain.packages.model import Artifact

DELETING = wanted(deleting=True)
SUSPENDED = wanted(suspended=True)
DISABLED = wanted(suspended=True, delete_on_disable=True)
OWNED = Progress(owner="u1")
REMOVING = running(removing=True, active=False, startup=0)
UPDATE = Run(trigger=Scope.SETTINGS)

IDLE = Next(step=Step.WAIT, hold=Hold.IDLE)
REST = Next(step=Step.WAIT, hold=Hold.SUSPENDED)

SITUATIONS: dict[str, tuple[Desired, Progress, Next]] = {
    # -- the beginning ----------------------------------------------------------------------------------------------
    "nothing is known and nothing there": (Desired(), Progress(), Next(step=Step.FINISH)),
    "an object that nobody owns": (wanted(finalizer=False), Progress(), Next(step=Step.ADOPT)),
    "another object under the name": (wanted(uid="u2"), running(), Next(step=Step.ADOPT)),
    "no finalizer": (wanted(finalizer=False), OWNED, Next(step=Step.ADD_FINALIZER)),
    "no finalizer, suspended": (
        wanted(finalizer=False, suspended=True),
        OWNED,
        Next(step=Step.ADD_FINALIZER),
    ),
    "finalizer lost while running": (wanted(finalizer=False), running(), Next(step=Step.ADD_FINALIZER)),
    # -- content and settings ---------------------------------------------------------------------------------------
    "nothing downloaded": (wanted(), OWNED, Next(step=Step.DOWNLOAD)),
    "another version": (wanted(source=source("2")), running(), Next(step=Step.DOWNLOAD)),
    "another repository": (
        wanted(source=replace(source(), repository="other")),
        running(),
        Next(step=Step.DOWNLOAD),
    ),
    "downloaded": (wanted(), replace(OWNED, artifact=artifact()), Next(step=Step.INSTALL)),
    "downloaded over a running one": (
        wanted(source=source("2")),
        running(artifact=artifact("2")),
        Next(step=Step.INSTALL),
    ),
    "same content under another version": (
        wanted(source=source("2")),
        running(artifact=Artifact(source=source("2"), digest="d1")),
        IDLE,
    ),
    "installed": (wanted(), replace(OWNED, artifact=artifact(), installed="d1"), Next(step=Step.LOAD)),
    "other content in memory": (wanted(), ready(loaded=loaded("2")), Next(step=Step.LOAD)),
    "loaded": (wanted(), ready(settings_for=""), Next(step=Step.APPLY_SETTINGS, scope=Scope.SETTINGS)),
    "settings changed before start": (
        wanted(settings="s2"),
        ready(),
        Next(step=Step.APPLY_SETTINGS, scope=Scope.SETTINGS),
    ),
    "settings changed while running": (
        wanted(settings="s2"),
        running(),
        Next(step=Step.APPLY_SETTINGS, scope=Scope.SETTINGS),
    ),
    "settings applied to older content": (
        wanted(),
        ready(settings_for="d0"),
        Next(step=Step.APPLY_SETTINGS, scope=Scope.SETTINGS),
    ),
    # -- start and run ----------------------------------------------------------------------------------------------
    "ready to start": (wanted(), ready(), Next(step=Step.STARTUP, scope=Scope.SCHEDULE, hook=FIRST)),
    "ready to start without hooks": (
        wanted(),
        ready(loaded=loaded(hooks=())),
        Next(step=Step.STARTUP, scope=Scope.SCHEDULE),
    ),
    "started": (wanted(), ready(active=True), Next(step=Step.BEFORE_HELM, scope=Scope.SCHEDULE, hook=FIRST)),
    "first hook done": (
        wanted(),
        ready(active=True, run=Run(before=1)),
        Next(step=Step.BEFORE_HELM, scope=Scope.SCHEDULE, hook=SECOND),
    ),
    "all hooks done": (
        wanted(),
        ready(active=True, run=Run(before=2)),
        Next(step=Step.UPGRADE_RELEASE, scope=Scope.SCHEDULE),
    ),
    "a run after new settings": (
        wanted(),
        ready(active=True, run=UPDATE),
        Next(step=Step.BEFORE_HELM, scope=Scope.SETTINGS, hook=FIRST),
    ),
    "released": (
        wanted(),
        ready(active=True, run=Run(before=2, releases=1)),
        Next(step=Step.AFTER_HELM, scope=Scope.SCHEDULE, hook=SECOND),
    ),
    "values changed after the release": (
        wanted(),
        ready(active=True, run=Run(before=2, releases=1, after=2)),
        Next(step=Step.UPGRADE_RELEASE, scope=Scope.SCHEDULE),
    ),
    "a run that only verifies": (
        wanted(),
        ready(active=True, run=Run(verify=True)),
        Next(step=Step.UPGRADE_RELEASE, scope=Scope.SCHEDULE),
    ),
    "complete": (wanted(), running(), IDLE),
    # -- suspension -------------------------------------------------------------------------------------------------
    "suspended while running": (SUSPENDED, running(), Next(step=Step.STOP, scope=Scope.SCHEDULE)),
    "suspended while starting": (SUSPENDED, ready(startup=1), Next(step=Step.STOP, scope=Scope.SCHEDULE)),
    "suspended before anything ran": (SUSPENDED, ready(), REST),
    "suspended from the beginning": (SUSPENDED, OWNED, REST),
    "suspended and stopped": (SUSPENDED, running(active=False, startup=0), REST),
    "disabled and stopped": (
        DISABLED,
        running(active=False, startup=0),
        Next(step=Step.BEFORE_DELETE_HELM, scope=Scope.SCHEDULE, hook=BYE),
    ),
    "disabled without a release": (DISABLED, ready(), REST),
    "disabled, release of other content": (
        DISABLED,
        ready(released=artifact("0")),
        Next(step=Step.LOAD),
    ),
    # -- removal ----------------------------------------------------------------------------------------------------
    "deleted before the finalizer": (wanted(deleting=True, finalizer=False), OWNED, Next(step=Step.CLEAN_UP)),
    "deleted, finalizer taken by hand": (
        wanted(deleting=True, finalizer=False),
        running(),
        Next(step=Step.CLEAN_UP),
    ),
    "deleted before anything was loaded": (DELETING, OWNED, Next(step=Step.CLEAN_UP)),
    "deleted while running": (
        DELETING,
        running(),
        Next(step=Step.BEFORE_DELETE_HELM, scope=Scope.SCHEDULE, hook=BYE),
    ),
    "deleted, loaded but never released": (
        DELETING,
        ready(),
        Next(step=Step.UNINSTALL_RELEASE, scope=Scope.SCHEDULE),
    ),
    "deleted, release of other content": (
        DELETING,
        replace(OWNED, artifact=artifact("2"), installed="d2", released=artifact()),
        Next(step=Step.LOAD),
    ),
    "deleted and abandoned": (wanted(deleting=True, abandon=True), running(), Next(step=Step.CLEAN_UP)),
    "abandoned, and another object under the name": (
        wanted(uid="u2", deleting=True, abandon=True),
        REMOVING,
        Next(step=Step.BEFORE_DELETE_HELM, scope=Scope.SCHEDULE, hook=BYE),
    ),
    "removal begun": (
        DELETING,
        replace(REMOVING, teardown=Teardown(before=1)),
        Next(step=Step.UNINSTALL_RELEASE, scope=Scope.SCHEDULE),
    ),
    "removal, release gone": (
        DELETING,
        replace(REMOVING, teardown=Teardown(before=1, uninstalled=True)),
        Next(step=Step.AFTER_DELETE_HELM, scope=Scope.SCHEDULE, hook=BYE),
    ),
    "removal, nothing left in the cluster": (
        DELETING,
        replace(REMOVING, released=None, loaded=None),
        Next(step=Step.CLEAN_UP),
    ),
    "removal, files gone": (
        DELETING,
        Progress(owner="u1", removing=True, cleaned=True),
        Next(step=Step.RELEASE_FINALIZER),
    ),
    "removal, and the object created again": (
        wanted(uid="u2", finalizer=False),
        replace(REMOVING, teardown=Teardown(before=1)),
        Next(step=Step.UNINSTALL_RELEASE, scope=Scope.SCHEDULE),
    ),
    "removal, and the object vanished": (
        Desired(),
        replace(REMOVING, teardown=Teardown(before=1)),
        Next(step=Step.UNINSTALL_RELEASE, scope=Scope.SCHEDULE),
    ),
    # -- the object is gone -----------------------------------------------------------------------------------------
    "gone while running": (Desired(), running(), Next(step=Step.CLEAN_UP)),
    "gone, only a record is left": (Desired(), Progress(artifact=artifact()), Next(step=Step.CLEAN_UP)),
    "gone and cleaned": (Desired(), Progress(owner="u1", cleaned=True), Next(step=Step.FINISH)),
}


@pytest.mark.parametrize(("desired", "progress", "expected"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_every_situation_has_its_one_next_step(desired: Desired, progress: Progress, expected: Next) -> None:
    assert next_step(desired, progress) == expected


@pytest.mark.parametrize(("desired", "progress"), [row[:2] for row in SITUATIONS.values()], ids=list(SITUATIONS))
def test_a_pause_holds_everything_but_adoption_removal_and_the_end(desired: Desired, progress: Progress) -> None:
    step = next_step(desired, progress, paused=True)
    moves = progress.removing or desired.deleting or not desired.exists or progress.owner != desired.uid
    assert (step == next_step(desired, progress)) if moves else (step == Next(step=Step.WAIT, hold=Hold.PAUSED))


@pytest.mark.parametrize(("desired", "progress"), [row[:2] for row in SITUATIONS.values()], ids=list(SITUATIONS))
def test_a_closed_gate_holds_the_start_and_the_run_only(desired: Desired, progress: Progress) -> None:
    before = next_step(desired, progress)
    held = {Step.STARTUP, Step.BEFORE_HELM, Step.UPGRADE_RELEASE, Step.AFTER_HELM}
    expected = Next(step=Step.WAIT, hold=Hold.GATED) if before.step in held or before == IDLE else before
    assert next_step(desired, progress, gate=Gate(open=False, reason="DependencyNotEnabled")) == expected


def test_labels_name_the_hook() -> None:
    assert next_step(wanted(), ready()).label == "Startup hooks/first"
    assert IDLE.label == "Wait"


@pytest.mark.parametrize(
    ("desired", "progress", "expected"),
    [
        (wanted(), ready(), artifact()),
        (wanted(), ready(released=artifact("0")), artifact()),
        (DELETING, ready(released=artifact("0")), artifact("0")),
        (SUSPENDED, ready(released=artifact("0")), artifact("0")),
        (wanted(), ready(released=artifact("0"), removing=True), artifact("0")),
        (DELETING, ready(), artifact()),
        (DELETING, OWNED, None),
    ],
)
def test_what_is_loaded_is_the_released_content_when_it_is_taken_away(
    desired: Desired, progress: Progress, expected: Artifact | None
) -> None:
    assert content_to_load(desired, progress) == expected


# -- whole paths -----------------------------------------------------------------------------------------------------

CONTENT = ["Download", "Install", "Load", "ApplySettings"]
RUN = [
    "BeforeHelm hooks/first",
    "BeforeHelm hooks/second",
    "UpgradeRelease",
    "AfterHelm hooks/second",
    "AfterHelm hooks/first",
]
START = ["Startup hooks/first", *RUN]
TEARDOWN = ["BeforeDeleteHelm hooks/bye", "UninstallRelease", "AfterDeleteHelm hooks/bye"]
END = ["CleanUp", "ReleaseFinalizer"]


def test_install() -> None:
    labels, _, progress, rest = walk(wanted(finalizer=False), Progress())
    assert labels == ["Adopt", "AddFinalizer", *CONTENT, *START]
    assert rest == IDLE
    assert progress == running()


@pytest.mark.parametrize("version", ["2", "0"], ids=["upgrade", "downgrade"])
def test_another_version_keeps_the_release_and_starts_anew(version: str) -> None:
    labels, _, progress, rest = walk(wanted(source=source(version)), running())
    assert labels == [*CONTENT, *START]
    assert rest == IDLE
    assert progress.released == artifact(version)


def test_new_settings_run_again_without_starting() -> None:
    labels, _, progress, rest = walk(wanted(settings="s2"), running())
    assert labels == ["ApplySettings", *RUN]
    assert (rest, progress.completed) == (IDLE, "d1/s2")


def test_suspended_and_resumed() -> None:
    labels, _, progress, rest = walk(SUSPENDED, running())
    assert (labels, rest) == (["Stop"], REST)
    assert progress.released == artifact()
    labels, _, progress, rest = walk(wanted(), progress)
    assert (labels, rest) == (START, IDLE)


def test_disabled_with_delete_and_resumed() -> None:
    labels, _, progress, rest = walk(DISABLED, running())
    assert (labels, rest) == (["Stop", *TEARDOWN], REST)
    assert progress.released is None
    labels, _, progress, rest = walk(wanted(), progress)
    assert (labels, rest) == (["Load", "ApplySettings", *START], IDLE)


def test_resumed_in_the_middle_of_the_teardown_and_disabled_again() -> None:
    _, _, progress, _ = walk(SUSPENDED, running())
    step = next_step(DISABLED, progress)
    progress = done(step, DISABLED, begin(step, progress), Result())
    labels, _, progress, rest = walk(wanted(), progress)
    assert (labels, rest) == (START, IDLE)
    labels, _, _, _ = walk(DISABLED, progress)
    assert labels == ["Stop", *TEARDOWN]


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (running(), [*TEARDOWN, *END]),
        (Progress(owner="u1"), END),
        (replace(OWNED, artifact=artifact()), END),
        (ready(), ["UninstallRelease", "AfterDeleteHelm hooks/bye", *END]),
        (begin(Next(step=Step.UPGRADE_RELEASE), ready(active=True)), [*TEARDOWN, *END]),
        (replace(OWNED, released=artifact()), ["Load", *TEARDOWN, *END]),
        (
            begin(Next(step=Step.UPGRADE_RELEASE), running(artifact=artifact("2"), loaded=loaded("2"))),
            [*TEARDOWN, *END],
        ),
    ],
    ids=["running", "unknown", "downloaded", "loaded", "half-made", "rebuilt", "half-upgraded"],
)
def test_removal(progress: Progress, expected: list[str]) -> None:
    labels, _, after, rest = walk(DELETING, progress)
    assert labels == expected
    assert (rest.step, after) == (Step.FINISH, Progress())


def test_an_abandoned_removal_leaves_the_release_and_runs_no_hook() -> None:
    labels, _, _, rest = walk(wanted(deleting=True, abandon=True), running())
    assert (labels, rest.step) == (END, Step.FINISH)


def test_a_finalizer_taken_by_hand_ends_the_life_without_a_teardown() -> None:
    labels, _, _, rest = walk(Desired(), running())
    assert (labels, rest.step) == (["CleanUp"], Step.FINISH)


def test_an_object_created_again_during_the_removal_lives_after_it() -> None:
    progress = begin_removal(DELETING, running())
    labels, _, progress, _ = walk(wanted(uid="u2", finalizer=False), progress)
    assert labels == [*TEARDOWN, *END]
    labels, _, progress, rest = walk(wanted(uid="u2", finalizer=False), progress)
    assert labels == ["Adopt", "AddFinalizer", *CONTENT, *START]
    assert (rest, progress.owner) == (IDLE, "u2")


def test_an_object_that_was_replaced_unseen_takes_the_release_over() -> None:
    labels, _, progress, rest = walk(wanted(uid="u2", finalizer=False), running())
    assert labels == ["Adopt", "AddFinalizer", "Install", "Load", "ApplySettings", *START]
    assert (rest, progress.owner, progress.released) == (IDLE, "u2", artifact())


def test_a_rebuilt_life_verifies_the_release_once_and_runs_no_hook() -> None:
    restored = Progress(artifact=artifact(), released=artifact(), completed="d1/s1")
    labels, _, progress, rest = walk(wanted(), restored)
    assert labels == ["Adopt", "Install", "Load", "ApplySettings", "UpgradeRelease"]
    assert (rest, progress.completed, progress.active) == (IDLE, "d1/s1", True)


@pytest.mark.parametrize("completed", ["", "d1/s0", "d0/s1"])
def test_a_rebuilt_life_whose_last_run_was_another_starts_anew(completed: str) -> None:
    restored = Progress(artifact=artifact(), released=artifact(), completed=completed)
    labels, _, _, _ = walk(wanted(), restored)
    assert labels == ["Adopt", "Install", "Load", "ApplySettings", *START]


def test_a_rebuilt_removal_goes_on() -> None:
    labels, _, _, rest = walk(DELETING, Progress(artifact=artifact("2"), released=artifact()))
    assert labels == ["Adopt", "Load", *TEARDOWN, *END]
    assert rest.step is Step.FINISH


def test_a_package_without_hooks() -> None:
    labels, _, progress, rest = walk(wanted(finalizer=False), Progress(), hooks=())
    assert labels == ["Adopt", "AddFinalizer", *CONTENT, "Startup", "UpgradeRelease"]
    labels, _, _, rest = walk(DELETING, progress, hooks=())
    assert (labels, rest.step) == (["UninstallRelease", *END], Step.FINISH)
