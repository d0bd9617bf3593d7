"""Words for the situations of a package's life, for the tests of the lifecycle core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.domain.lifecycle.steps import Desired, Loaded, Next, Progress, Run, Step, next_step
from windlass.domain.lifecycle.transitions import Result, begin, begin_removal, done
from windlass.domain.packages.model import Artifact, Binding, Hook, Source

BYE = Hook(path="hooks/bye", orders={Binding.BEFORE_DELETE_HELM: 1, Binding.AFTER_DELETE_HELM: 1})
FIRST = Hook(path="hooks/first", orders={Binding.ON_STARTUP: 1, Binding.BEFORE_HELM: 1, Binding.AFTER_HELM: 2})
SECOND = Hook(path="hooks/second", orders={Binding.BEFORE_HELM: 2, Binding.AFTER_HELM: 1})
HOOKS = (BYE, FIRST, SECOND)


def source(version: str = "1") -> Source:
    return Source(repository="shelf", package="web", version=version)


def artifact(version: str = "1") -> Artifact:
    return Artifact(source=source(version), digest=f"d{version}")


def wanted(**fields: Any) -> Desired:
    """An object that exists and has the finalizer."""
    base = Desired(exists=True, uid="u1", generation=1, finalizer=True, source=source(), settings="s1")
    return replace(base, **fields)


def loaded(version: str = "1", hooks: tuple[Hook, ...] = HOOKS) -> Loaded:
    return Loaded(artifact=artifact(version), hooks=hooks)


def ready(**fields: Any) -> Progress:
    """Content in place, settings applied, nothing started."""
    base = Progress(
        owner="u1",
        artifact=artifact(),
        installed="d1",
        loaded=loaded(),
        settings="s1",
        settings_for="d1",
        values="v-s1",
    )
    return replace(base, **fields)


def running(**fields: Any) -> Progress:
    """A Run that is complete."""
    base = ready(
        startup=1,
        active=True,
        released=artifact(),
        completed="d1/s1",
        run=Run(before=2, releases=1, after=2, values="v-s1", complete=True),
    )
    return replace(base, **fields)


def result_of(step: Next, desired: Desired, progress: Progress, hooks: tuple[Hook, ...] = HOOKS) -> Result:
    """What the step's activity answers when all goes well and nothing surprises."""
    match step.step:
        case Step.DOWNLOAD:
            assert desired.source is not None
            return Result(artifact=artifact(desired.source.version))
        case Step.LOAD:
            content = progress.released if progress.removing or desired.suspended else progress.artifact
            assert content is not None
            return Result(loaded=Loaded(artifact=content, hooks=hooks))
        case Step.APPLY_SETTINGS:
            return Result(settings=desired.settings, values=f"v-{desired.settings}")
        case _:
            return Result(values=progress.values, unchanged=progress.run.verify)


def walk(
    desired: Desired, progress: Progress, *, hooks: tuple[Hook, ...] = HOOKS
) -> tuple[list[str], Desired, Progress, Next]:
    """Perform step after step until the lifecycle waits or ends; return the labels and where that was."""
    labels: list[str] = []
    for _ in range(50):
        progress = begin_removal(desired, progress)
        step = next_step(desired, progress)
        if step.step in {Step.WAIT, Step.FINISH}:
            return labels, desired, progress, step
        labels.append(step.label)
        progress = begin(step, progress)
        progress = done(step, desired, progress, result_of(step, desired, progress, hooks))
        if step.step is Step.ADD_FINALIZER:
            desired = replace(desired, finalizer=True)
        if step.step is Step.RELEASE_FINALIZER:
            desired = Desired()
    raise AssertionError(f"no rest after {labels}")
