"""The lifecycle core against a simulated cluster, in any order of wishes, looks, steps, failures, actions and crashes.

A step has a beginning and an end, and anything may happen between the two; a step that fails or is cancelled may have
done its work or not. A crash forgets everything but what is recorded: the state Secret and the object's status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.lifecycle.lives import HOOKS, artifact, source
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.domain.lifecycle.changes import Event, cancels, classify
from windlass.domain.lifecycle.policy import (
    BREAKABLE,
    UPGRADING,
    Cause,
    Control,
    Good,
    Held,
    Rejected,
    decide,
    effective,
    judged,
    last_good,
    reject,
    released,
    remember,
    renewed,
    why_not_skipped,
)
from windlass.domain.lifecycle.steps import (
    Desired,
    Hold,
    Loaded,
    Next,
    OnFailure,
    Progress,
    Step,
    completion_mark,
    content_to_load,
)
from windlass.domain.lifecycle.transitions import Result, begin, begin_removal, done, remaining
from windlass.domain.packages.model import Artifact, Source

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
        self.completed: tuple[str, str, Control] = ("", "", Control())  # uid, mark and control, in the object's status
        self.kept: set[str] = set()  # marks of the releases that the state Secret can make again
        self.revision = 0
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

    @rule(policy=st.sampled_from(OnFailure), attempts=st.integers(1, 3))
    def choose(self, policy: OnFailure, attempts: int) -> None:
        self.edit(on_failure=policy, attempts=attempts)

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

    # -- what people request -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.observed)
    @rule()
    def request_retry(self) -> None:
        if self.strikes or self.control.held:
            self.control = replace(self.control, held=None)
        elif self.control.target:
            self.control = released(self.control)
            self.running = None

    @precondition(lambda self: self.observed and self.running)
    @rule(acted=st.booleans())
    def request_cancel(self, acted: bool) -> None:
        assert self.running is not None
        running, self.running = self.running, None
        if acted:
            self.act(running)
        self.control = replace(self.control, held=Held(step=running.step.label, cause=Cause.CANCELLED))

    @precondition(lambda self: self.observed and self.strikes and not self.running)
    @rule()
    def request_skip(self) -> None:
        step = decide(self.seen, self.progress, replace(self.control, held=None, breakpoints=()))
        if step.label != self.strikes[0] or why_not_skipped(step.step, "ReadinessTimeout", self.control.held):
            return
        self.progress = replace(self.progress, run=replace(self.progress.run, skipped=True))
        self.control = replace(self.control, held=None)
        self.finish(Running(step, self.wanted), Result(values=self.progress.values))

    @precondition(lambda self: self.observed)
    @rule(which=st.integers(0, 9))
    def request_rollback(self, which: int) -> None:
        going = self.progress.removing or self.seen.deleting or not self.seen.exists
        if going or self.control.target is not None or last_good(self.control, self.seen) is None:
            return
        others = [one for one in self.control.good if (one.artifact.source, one.settings) != self.wish]
        self.control = reject(
            self.control, Rejected(source=self.wish[0], settings=self.wish[1]), others[which % len(others)]
        )
        self.running = self.strikes = None

    @precondition(lambda self: self.observed)
    @rule(step=st.sampled_from(list(BREAKABLE.values())))
    def request_breakpoint(self, step: Step) -> None:
        self.control = replace(self.control, breakpoints=(step,))

    @rule()
    def request_resume(self) -> None:
        held = self.control.held
        free = held is None or held.cause is Cause.CANCELLED
        self.control = replace(self.control, breakpoints=(), held=None if free else held)

    # -- what the workflow does --------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        before, self.seen = self.seen, self.object
        if not self.observed:
            self.observed, before = True, self.seen
            self.restore()
        was_wanted = effective(before, self.control)
        self.control = renewed(self.control, before, self.seen)
        event = classify(was_wanted, self.wanted)
        if event is not Event.NONE:
            self.strikes = None
        if self.running and cancels(event, self.running.step, self.progress):
            self.running = None
        was = self.progress.removing
        self.progress = begin_removal(self.seen, self.progress)
        self.farewells = self.farewells if was else 0

    @precondition(lambda self: self.observed and not self.running)
    @rule()
    def begin(self) -> None:
        step = decide(self.seen, self.progress, self.control)
        if step.step in {Step.WAIT, Step.FINISH}:
            return
        self.check(step)
        self.progress = begin(step, self.progress)
        if step.step is Step.UPGRADE_RELEASE:
            self.released = self.progress.artifact  # written down before the attempt
            good = {one.mark for one in self.control.good}
            self.kept = {one for one in self.kept if one in good} | {
                completion_mark(self.progress.artifact, self.progress.settings)
            }
        self.running = Running(step, self.wanted)
        if step.step in {Step.ADOPT, Step.STOP, Step.ROLL_BACK}:
            self.end()

    @precondition(lambda self: self.running is not None)
    @rule()
    def end(self) -> None:
        assert self.running is not None
        running, self.running = self.running, None
        self.finish(running, self.act(running))

    def finish(self, running: Running, result: Result) -> None:
        """Take over what a step brought."""
        owner = self.progress.owner
        self.progress = done(running.step, running.desired, self.progress, result)
        if running.step.step is Step.BEFORE_DELETE_HELM and self.progress.removing:
            self.farewells += 1
            assert self.farewells <= 1, "a removal in flight was started over"
        self.strikes = None
        if running.step.step in {Step.UPGRADE_RELEASE, Step.AFTER_HELM}:
            self.prove()
        if running.step.step in {Step.UNINSTALL_RELEASE, Step.RELEASE_FINALIZER} or (
            running.step.step is Step.ADOPT and owner
        ):
            self.control = Control(breakpoints=self.control.breakpoints)
        free = replace(self.control, held=None)
        if decide(self.seen, self.progress, free).step is Step.WAIT:
            self.control = free
        if running.step.step is Step.ADD_FINALIZER and self.seen.uid == running.desired.uid:
            self.seen = replace(self.seen, finalizer=True)
        if running.step.step is Step.RELEASE_FINALIZER:
            self.seen = Desired()
            self.look()

    @precondition(lambda self: self.running is not None)
    @rule(acted=st.booleans(), permanent=st.booleans())
    def fail(self, acted: bool, permanent: bool) -> None:
        assert self.running is not None
        running, self.running = self.running, None
        if acted:
            self.act(running)
        if running.step.step is Step.LOAD and not self.progress.removing:
            self.progress = replace(self.progress, artifact=None)
        label = running.step.label
        count = self.strikes[1] + 1 if self.strikes and self.strikes[0] == label else 1
        self.strikes = (label, count)
        if running.step.step not in UPGRADING:
            return
        what = Held(step=label, cause=Cause.FAILED)
        before, self.control = (
            self.control,
            judged(
                self.seen,
                self.progress,
                self.control,
                what,
                running.step.step,
                strikes=count,
                permanent=permanent,
            ),
        )
        assert self.control == before or before.good, "a first installation is always tried again"
        if self.control.target is not before.target:
            self.strikes = None

    def prove(self) -> None:
        progress = self.progress
        if not progress.run.complete or progress.run.skipped:
            return
        assert progress.artifact is not None
        good = Good(revision=self.revision, artifact=progress.artifact, settings=progress.settings)
        self.control = remember(self.control, good)

    @rule()
    def write_status(self) -> None:
        if self.observed and self.object.exists and self.object.uid == self.seen.uid:
            self.completed = (self.object.uid, self.progress.completed, self.control)

    @rule(acted=st.booleans())
    def crash(self, acted: bool) -> None:
        if self.running and acted:
            self.act(self.running)
        self.lose()

    def lose(self) -> None:
        self.control = Control()
        self.strikes: tuple[str, int] | None = None  # label of the failed step, how often in a row
        self.progress = Progress()
        self.seen = Desired()
        self.observed = False
        self.running: Running | None = None
        self.farewells = 0

    def restore(self) -> None:
        """Take over what outlived a crash; what stands in a status is known once its object was seen."""
        uid, mark, control = self.completed
        mine = self.object.exists and self.object.uid == uid
        self.control = control if mine else Control()
        self.progress = Progress(artifact=self.recorded, released=self.released, completed=mark if mine else "")

    @rule(steps=st.integers(1, 16), looking=st.booleans())
    def proceed(self, steps: int, looking: bool) -> None:
        """Go on for a while: far states are as likely as near ones."""
        for _ in range(steps):
            if self.running:
                self.end()
            if looking or not self.observed:
                self.look()
            self.begin()

    @property
    def wanted(self) -> Desired:
        return effective(self.seen, self.control)

    @property
    def wish(self) -> tuple[Source | None, str]:
        return self.seen.source, self.seen.settings

    @rule(
        policy=st.sampled_from(OnFailure),
        version=st.sampled_from("123"),
        wish=st.sampled_from(["s1", "s2"]),
        steps=st.integers(1, 12),
        permanent=st.booleans(),
    )
    def upgrade_and_fail(self, policy: OnFailure, version: str, wish: str, steps: int, permanent: bool) -> None:
        """Bring it to rest, ask for something else, and let a step on the way there fail: chance alone rarely does."""
        self.edit(suspended=False)
        self.proceed(16, True)
        self.edit(source=source(version), settings=wish, on_failure=policy, attempts=2)
        self.proceed(steps, True)
        for _ in range(2):
            if self.running:
                self.fail(acted=True, permanent=permanent)
                self.begin()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self, step: Next) -> None:
        progress, seen = self.progress, self.wanted
        rejected = self.control.rejected
        if rejected is not None and seen.exists:
            assert (seen.source, seen.settings) != (rejected.source, rejected.settings), "what was rejected is tried"
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
        left = remaining(self.wanted, self.progress)
        step = decide(
            self.seen, begin_removal(self.seen, self.progress), replace(self.control, held=None, breakpoints=())
        )
        assert left[:1] == (() if step.step in {Step.WAIT, Step.FINISH} else (step,))

    @invariant()
    def what_is_rejected_has_something_in_its_stead(self) -> None:
        assert (self.control.rejected is None) == (self.control.target is None)

    @invariant()
    def the_good_releases_can_be_made_again(self) -> None:
        if self.observed and self.seen.uid == self.progress.owner and not self.unowned:
            assert {one.mark for one in self.control.good} <= self.kept

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
                if running.desired.pinned is not None:
                    assert completion_mark(progress.artifact, running.desired.settings) in self.kept
                    return Result(settings=running.desired.settings, values=running.desired.settings)
                newest = self.object if self.object.uid == progress.owner else running.desired
                return Result(settings=newest.settings, values=newest.settings)
            case Step.UPGRADE_RELEASE:
                assert progress.artifact is not None
                before, self.release = self.release, (progress.artifact.digest, progress.values)
                self.revision += before != self.release
                self.unowned = self.unowned and self.object.uid != progress.owner
                return Result(values=progress.values, unchanged=before == self.release)
            case Step.UNINSTALL_RELEASE:
                self.release = self.released = None
            case Step.CLEAN_UP:
                abandoned = running.desired.abandon or not running.desired.exists
                self.unowned = self.unowned or (abandoned and self.release is not None)
                self.recorded = self.released = None
                self.kept = set()
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
            step = decide(self.seen, self.progress, self.control)
            if step.step in {Step.WAIT, Step.FINISH}:
                return step
            self.begin()
            if self.running:
                self.end()
        raise AssertionError(f"no rest after {STEPS_TO_REST} steps: {self.progress}")

    def teardown(self) -> None:
        rest = self.settle()
        if rest.hold is Hold.ROLLED_BACK:
            target = self.control.target
            assert target is not None
            assert self.release == (target.artifact.digest, target.settings)
            self.request_retry()
            rest = self.settle()
        if rest.hold in {Hold.HELD, Hold.BREAKPOINT}:
            assert rest.blocked
            self.request_resume()
            self.request_retry()
            rest = self.settle()
        if rest.hold is Hold.ROLLED_BACK:
            self.request_retry()
            rest = self.settle()
        wanted = self.object
        if wanted.exists and not wanted.suspended and rest.step is not Step.FINISH:
            assert rest.hold is Hold.IDLE
            assert wanted.source is not None
            made = (artifact(wanted.source.version).digest, wanted.settings)
            assert self.release == made or self.progress.run.skipped, "what was skipped is as somebody left it"
            assert self.progress.completed == completion_mark(self.progress.artifact, wanted.settings)
        elif wanted.exists and wanted.suspended and rest.step is not Step.FINISH:
            assert rest.hold is Hold.SUSPENDED
            if wanted.delete_on_disable:
                assert self.release is None or self.unowned
        if self.object.exists:
            self.delete()
            self.look()
            self.request_resume()
            assert self.settle().step is Step.FINISH
        assert not self.object.exists
        assert self.release is None or self.unowned
        assert (self.recorded, self.released) == (None, None)


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=250, stateful_step_count=25, deadline=None)
