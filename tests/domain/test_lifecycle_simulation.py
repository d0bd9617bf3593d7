"""Drives the lifecycle against a simulated cluster: random wishes, failures, cancellations and lost workflows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

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
from windlass.domain.package import Artifact, Binding, Hook, Source
from windlass.domain.transitions import Result, begin, begin_removal, done, remaining

HOOKS = (
    Hook(path="hooks/a", orders={Binding.ON_STARTUP: 1, Binding.BEFORE_HELM: 2, Binding.AFTER_HELM: 1}),
    Hook(path="hooks/b", orders={Binding.BEFORE_HELM: 1, Binding.BEFORE_DELETE_HELM: 1, Binding.AFTER_DELETE_HELM: 1}),
)
STEP_BOUND = 60


def source(version: str) -> Source:
    return Source(repository="r", package="p", version=version)


@dataclass
class World:
    """The cluster, the object, and what outlives a workflow."""

    desired: Desired = field(
        default_factory=lambda: Desired(exists=True, uid="u1", generation=1, source=source("1"), settings="s1")
    )
    release: str = ""  # digest of the release that stands, "" for none
    release_values: str = ""
    artifact: Artifact | None = None
    released: Artifact | None = None
    completed: str = ""
    uids: int = 1
    abandoned: bool = False  # the finalizer was taken off by hand: the release is nobody's until the next one is made
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def restored(self) -> Progress:
        return Progress(artifact=self.artifact, released=self.released, completed=self.completed)

    def act(self, step: Next, progress: Progress) -> Result:
        """Do what the step's activity does."""
        match step.step:
            case Step.ADD_FINALIZER:
                self.desired = replace(self.desired, finalizer=True)
            case Step.DOWNLOAD:
                assert self.desired.source is not None
                digest = f"d{self.desired.source.version}"
                return Result(artifact=Artifact(source=self.desired.source, digest=digest))
            case Step.INSTALL:
                self.artifact = progress.artifact
            case Step.LOAD:
                content = content_to_load(self.desired, progress)
                assert content is not None
                return Result(loaded=Loaded(artifact=content, hooks=HOOKS))
            case Step.APPLY_SETTINGS:
                assert progress.loaded is not None
                return Result(settings=self.desired.settings, values=f"v-{self.desired.settings}")
            case Step.UPGRADE_RELEASE:
                assert progress.loaded is not None
                assert progress.artifact is not None
                assert progress.installed == progress.artifact.digest == progress.loaded.artifact.digest
                assert progress.settings_for == progress.artifact.digest
                assert self.desired.finalizer or self.desired.uid != progress.owner or not self.desired.exists
                unchanged = self.release == progress.artifact.digest
                self.release = progress.artifact.digest
                self.abandoned = False
                return Result(values=progress.values, unchanged=unchanged)
            case Step.UNINSTALL_RELEASE:
                self.release = ""
                self.released = None
            case Step.CLEAN_UP:
                self.artifact = self.released = None
                self.completed = ""
            case Step.RELEASE_FINALIZER:
                if self.desired.uid == progress.owner:
                    self.desired = Desired() if self.desired.deleting else replace(self.desired, finalizer=False)
            case _:
                pass
        if step.hook is not None:
            self.ran.append((step.step.value, step.hook.path))
            return Result(values=progress.values)
        return Result()


WISHES = st.sampled_from(["version", "settings", "suspend", "resume", "delete", "recreate", "force", "disable-delete"])
OUTCOMES = st.sampled_from(["ok", "ok", "ok", "ok", "fail", "lost"])


def wish(world: World, what: str) -> None:
    desired = world.desired
    if not desired.exists:
        if what == "recreate":
            world.uids += 1
            world.desired = Desired(exists=True, uid=f"u{world.uids}", generation=1, source=source("1"), settings="s1")
        return
    match what:
        case "version" if desired.source is not None:
            version = "2" if desired.source.version == "1" else "1"
            world.desired = replace(desired, source=source(version), generation=desired.generation + 1)
        case "settings":
            world.desired = replace(desired, settings=desired.settings + "x", generation=desired.generation + 1)
        case "suspend":
            world.desired = replace(desired, suspended=True)
        case "disable-delete":
            world.desired = replace(desired, suspended=True, delete_on_disable=True)
        case "resume":
            world.desired = replace(desired, suspended=False)
        case "delete":
            world.desired = replace(desired, deleting=True) if desired.finalizer else Desired()
        case "force":
            world.desired = Desired()
            world.abandoned = True
        case _:
            pass


def settle(world: World, progress: Progress, seen: Desired) -> tuple[Progress, Next]:
    """Run without disturbance until the lifecycle rests."""
    seen = world.desired
    for _ in range(STEP_BOUND):
        progress = begin_removal(seen, progress)
        step = next_step(seen, progress)
        left = remaining(seen, progress)
        assert (left[0] if left else None) == (step if step.step not in {Step.WAIT, Step.FINISH} else None)
        if step.step in {Step.WAIT, Step.FINISH}:
            return progress, step
        progress = begin(step, progress)
        result = world.act(step, progress)
        progress = done(step, seen, progress, result)
        world.completed = progress.completed
        seen = world.desired
    raise AssertionError(f"no rest after {STEP_BOUND} steps: {step} {progress}")


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), OUTCOMES, st.one_of(st.none(), WISHES)), max_size=40))
def test_whatever_happens_it_comes_to_the_right_rest(turns: list[tuple[int, str, str | None]]) -> None:
    world = World()
    progress = world.restored()
    seen = world.desired
    for steps, outcome, what in turns:
        for _ in range(steps):
            seen = world.desired
            progress = begin_removal(seen, progress)
            step = next_step(seen, progress)
            if step.step in {Step.WAIT, Step.FINISH}:
                break
            progress = begin(step, progress)
            if step.step is Step.UPGRADE_RELEASE:
                world.released = progress.artifact  # written down before the attempt
            result = world.act(step, progress)
            progress = done(step, seen, progress, result)
            world.completed = progress.completed
        if outcome == "fail":
            seen = world.desired
            progress = begin_removal(seen, progress)
            step = next_step(seen, progress)
            if step.step not in {Step.WAIT, Step.FINISH}:
                progress = begin(step, progress)  # begun, and its end never learnt of
                if step.step is Step.UPGRADE_RELEASE:
                    world.released = progress.artifact
                    world.release = progress.artifact.digest if progress.artifact else ""
        if what is not None:
            before = world.desired
            wish(world, what)
            event = classify(before, world.desired)
            cancels(event, Next(step=Step.LOAD), progress)
        if outcome == "lost":
            progress = world.restored()

    progress, rest = settle(world, progress, seen)
    desired = world.desired
    if not desired.exists:
        assert rest.step is Step.FINISH
        return
    if desired.suspended:
        assert rest.hold is Hold.SUSPENDED
        if desired.delete_on_disable and not world.abandoned:
            assert world.release == ""
        return
    assert rest.hold is Hold.IDLE
    assert desired.source is not None
    assert world.release == f"d{desired.source.version}"
    assert progress.completed == completion_mark(progress.artifact, desired.settings)

    if desired.finalizer:
        world.desired = replace(desired, deleting=True)
        progress, rest = settle(world, progress, world.desired)
        assert rest.step is Step.FINISH
        assert world.release == ""
        assert not world.desired.exists


def test_a_lost_workflow_runs_no_hook_again() -> None:
    world = World()
    progress, rest = settle(world, world.restored(), world.desired)
    assert rest.hold is Hold.IDLE
    world.released = progress.released
    ran = list(world.ran)
    assert ran == [
        ("Startup", "hooks/a"),
        ("BeforeHelm", "hooks/b"),
        ("BeforeHelm", "hooks/a"),
        ("AfterHelm", "hooks/a"),
    ]
    progress, rest = settle(world, world.restored(), world.desired)
    assert rest.hold is Hold.IDLE
    assert world.ran == ran
