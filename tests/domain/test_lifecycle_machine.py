"""The lifecycle core against a simulated cluster, in any order of wishes, looks, steps, failures and crashes.

A step has a beginning and an end, and anything may happen between the two; a step that fails or is cancelled may have
done its work or not. A crash forgets everything but what is recorded: the state Secret and the object's status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.lives import HOOKS, artifact, source
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.domain.changes import cancels, classify
from windlass.domain.lifecycle import (
    Desired,
    Hold,
    Loaded,
    Next,
    Progress,
    Step,
    completion_mark,
    content_to_load,
    next_step,
)
from windlass.domain.package import Artifact
from windlass.domain.transitions import Result, begin, begin_removal, done, remaining

STEPS_TO_REST = 40


@dataclass(frozen=True)
class Running:
    """A step under way, and what was known when it began."""

    step: Next
    desired: Desired


class Lifecycle(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.uids = 0
        self.object = Desired()
        self.create()
        # the cluster
        self.release: tuple[str, str] | None = None  # content and values
        self.unowned = False  # a release whose finalizer somebody took by hand
        # what outlives a crash
        self.recorded: Artifact | None = None
        self.released: Artifact | None = None
        self.completed: tuple[str, str] = ("", "")  # uid and mark, in the object's status
        self.lose()
        self.farewells = 0  # hooks before a deletion that ended well in this removal

    # -- what people do ----------------------------------------------------------------------------------------------

    def create(self) -> None:
        self.uids += 1
        self.object = Desired(exists=True, uid=f"u{self.uids}", generation=1, source=source("1"), settings="s1")

    def edit(self, **fields: object) -> None:
        if self.object.exists:
            self.object = replace(self.object, generation=self.object.generation + 1, **fields)  # type: ignore[arg-type]  # fields by name

    @rule(version=st.sampled_from("123"))
    def want_version(self, version: str) -> None:
        self.edit(source=source(version))

    @rule(wish=st.sampled_from(["s1", "s2"]))
    def want_settings(self, wish: str) -> None:
        self.edit(settings=wish)

    @rule(suspended=st.booleans(), delete=st.booleans())
    def suspend(self, suspended: bool, delete: bool) -> None:
        self.edit(suspended=suspended, delete_on_disable=delete)

    @rule()
    def delete(self) -> None:
        if self.object.finalizer:
            self.edit(deleting=True)
        else:
            self.object = Desired()

    @precondition(lambda self: self.object.deleting)
    @rule()
    def abandon(self) -> None:
        self.edit(abandon=True)

    @precondition(lambda self: self.object.finalizer)
    @rule(again=st.booleans())
    def take_finalizer_by_hand(self, again: bool) -> None:
        self.unowned = self.release is not None or self.running is not None
        self.object = Desired()
        if again:
            self.create()

    @precondition(lambda self: not self.object.exists)
    @rule()
    def create_again(self) -> None:
        self.create()

    # -- what the workflow does --------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        before, self.seen = self.seen, self.object
        if not self.observed:
            self.observed, before = True, self.seen
        if self.running and cancels(classify(before, self.seen), self.running.step, self.progress):
            self.running = None
        was = self.progress.removing
        self.progress = begin_removal(self.seen, self.progress)
        self.farewells = self.farewells if was else 0

    @precondition(lambda self: self.observed and not self.running)
    @rule()
    def begin(self) -> None:
        step = next_step(self.seen, self.progress)
        if step.step in {Step.WAIT, Step.FINISH}:
            return
        self.check(step)
        self.progress = begin(step, self.progress)
        if step.step is Step.UPGRADE_RELEASE:
            self.released = self.progress.artifact  # written down before the attempt
        self.running = Running(step, self.seen)
        if step.step in {Step.ADOPT, Step.STOP}:
            self.end()

    @precondition(lambda self: self.running is not None)
    @rule()
    def end(self) -> None:
        assert self.running is not None
        running, self.running = self.running, None
        result = self.act(running)
        self.progress = done(running.step, running.desired, self.progress, result)
        if running.step.step is Step.BEFORE_DELETE_HELM and self.progress.removing:
            self.farewells += 1
            assert self.farewells <= 1, "a removal in flight was started over"
        if running.step.step is Step.ADD_FINALIZER and self.seen.uid == running.desired.uid:
            self.seen = replace(self.seen, finalizer=True)
        if running.step.step is Step.RELEASE_FINALIZER:
            self.seen = Desired()
            self.look()

    @precondition(lambda self: self.running is not None)
    @rule(acted=st.booleans())
    def fail(self, acted: bool) -> None:
        assert self.running is not None
        running, self.running = self.running, None
        if acted:
            self.act(running)
        if running.step.step is Step.LOAD and not self.progress.removing:
            self.progress = replace(self.progress, artifact=None)

    @rule()
    def write_status(self) -> None:
        if self.observed and self.object.exists and self.object.uid == self.seen.uid:
            self.completed = (self.object.uid, self.progress.completed)

    @rule(acted=st.booleans())
    def crash(self, acted: bool) -> None:
        if self.running and acted:
            self.act(self.running)
        self.lose()

    def lose(self) -> None:
        uid, mark = self.completed
        self.progress = Progress(
            artifact=self.recorded,
            released=self.released,
            completed=mark if self.object.uid == uid else "",
        )
        self.seen = Desired()
        self.observed = False
        self.running: Running | None = None
        self.farewells = 0

    @rule(steps=st.integers(1, 16), looking=st.booleans())
    def proceed(self, steps: int, looking: bool) -> None:
        """Go on for a while: far states are as likely as near ones."""
        for _ in range(steps):
            if self.running:
                self.end()
            if looking or not self.observed:
                self.look()
            self.begin()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self, step: Next) -> None:
        progress, seen = self.progress, self.seen
        match step.step:
            case Step.ADOPT | Step.ADD_FINALIZER:
                pass
            case Step.DOWNLOAD | Step.INSTALL | Step.APPLY_SETTINGS | Step.STARTUP | Step.BEFORE_HELM | Step.AFTER_HELM:
                assert seen.finalizer
            case Step.UPGRADE_RELEASE:
                assert seen.finalizer
                assert progress.artifact is not None
                assert progress.loaded is not None
                assert progress.installed == progress.artifact.digest == progress.loaded.artifact.digest
                assert (progress.settings, progress.settings_for) == (seen.settings, progress.artifact.digest)
            case Step.BEFORE_DELETE_HELM:
                assert progress.loaded is not None
                assert progress.loaded.artifact == progress.released
            case Step.RELEASE_FINALIZER:
                abandoned = seen.abandon and seen.uid == progress.owner
                assert self.release is None or abandoned or self.unowned, "a release was left behind"
            case _:
                pass

    @invariant()
    def the_queue_begins_with_the_next_step(self) -> None:
        if not self.observed:
            return
        left = remaining(self.seen, self.progress)
        step = next_step(self.seen, begin_removal(self.seen, self.progress))
        assert left[:1] == (() if step.step in {Step.WAIT, Step.FINISH} else (step,))

    @invariant()
    def a_release_that_stands_is_known_or_was_given_up(self) -> None:
        known = self.progress.released is not None and self.released is not None
        assert self.release is None or known or self.unowned or not self.observed

    def act(self, running: Running) -> Result:
        """Do what the step's activity does; it acts on what was known when it began."""
        progress, step = self.progress, running.step.step
        match step:
            case Step.ADD_FINALIZER:
                if self.object.uid == running.desired.uid and not self.object.deleting:
                    self.object = replace(self.object, finalizer=True)
            case Step.DOWNLOAD:
                assert running.desired.source is not None
                return Result(artifact=artifact(running.desired.source.version))
            case Step.INSTALL:
                self.recorded = progress.artifact
            case Step.LOAD:
                content = content_to_load(running.desired, progress)
                assert content is not None
                return Result(loaded=Loaded(artifact=content, hooks=HOOKS))
            case Step.APPLY_SETTINGS:
                newest = self.object if self.object.uid == progress.owner else running.desired
                return Result(settings=newest.settings, values=newest.settings)
            case Step.UPGRADE_RELEASE:
                assert progress.artifact is not None
                before, self.release = self.release, (progress.artifact.digest, progress.values)
                self.unowned = self.unowned and self.object.uid != progress.owner
                return Result(values=progress.values, unchanged=before == self.release)
            case Step.UNINSTALL_RELEASE:
                self.release = self.released = None
            case Step.CLEAN_UP:
                abandoned = running.desired.abandon or not running.desired.exists
                self.unowned = self.unowned or (abandoned and self.release is not None)
                self.recorded = self.released = None
            case Step.RELEASE_FINALIZER:
                if self.object.uid == progress.owner:
                    self.object = Desired() if self.object.deleting else replace(self.object, finalizer=False)
            case _:
                pass
        return Result(values=progress.values)

    # -- and in the end ----------------------------------------------------------------------------------------------

    def settle(self) -> Next:
        """Let the lifecycle go on undisturbed until it rests."""
        if self.running:
            self.end()
        for _ in range(STEPS_TO_REST):
            self.look()
            step = next_step(self.seen, self.progress)
            if step.step in {Step.WAIT, Step.FINISH}:
                return step
            self.begin()
            if self.running:
                self.end()
        raise AssertionError(f"no rest after {STEPS_TO_REST} steps: {self.progress}")

    def teardown(self) -> None:
        rest = self.settle()
        wanted = self.object
        if wanted.exists and not wanted.suspended and rest.step is not Step.FINISH:
            assert rest.hold is Hold.IDLE
            assert wanted.source is not None
            assert self.release == (artifact(wanted.source.version).digest, wanted.settings)
            assert self.progress.completed == completion_mark(self.progress.artifact, wanted.settings)
        elif wanted.exists and wanted.suspended and rest.step is not Step.FINISH:
            assert rest.hold is Hold.SUSPENDED
            if wanted.delete_on_disable:
                assert self.release is None or self.unowned
        if self.object.exists:
            self.delete()
            assert self.settle().step is Step.FINISH
        assert not self.object.exists
        assert self.release is None or self.unowned
        assert (self.recorded, self.released) == (None, None)


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=250, stateful_step_count=25, deadline=None)
