"""What must not happen to packages at rest: nothing, whatever is restarted, sent twice, or ended by hand."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path

from faults.subjects import Subject
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle

from support.histories import cost
from support.installation import Installation, condition
from support.waiting import eventually
from windlass.contracts.lifecycle import DesiredChanged
from windlass.contracts.objects import SeenStatus
from windlass.domain.ids import package_workflow_id
from windlass.workflows.package import PackageLifecycleWorkflow

PACKAGES = 30
SIGNALS = 40
"""Below the hundred at which Temporal fails a task; the watcher itself sends one signal for a burst."""

ANSWERS_WITHIN = 20.0
"""Seconds from a kill to the answers of all, on a machine that is busy with other things; 5 are meant on idle cores
(design section 8), see bench/recovery.py."""

BACK_WITHIN = 40.0
"""Seconds until a lifecycle that was terminated runs again: the watcher looks every 15."""


def handle_of(installation: Installation, name: str) -> WorkflowHandle[PackageLifecycleWorkflow, None]:
    workflow_id = package_workflow_id(installation.key(name))
    return installation.client.get_workflow_handle_for(PackageLifecycleWorkflow.run, workflow_id)


async def length_of(installation: Installation, name: str) -> int:
    return (await handle_of(installation, name).describe()).raw_description.workflow_execution_info.history_length


def compared(installation: Installation) -> list[dict[str, int]]:
    """Return what each comparison of all packages found, one for each start."""
    lines = [json.loads(line) for line in installation.log.read_text().splitlines()]
    found = [line for line in lines if line["event"] == "compared"]
    return [{field: line[field] for field in ("packages", "signalled")} for line in found]


async def test_a_killed_worker_comes_back_to_idle_packages_and_does_nothing(
    installation: Installation, tmp_path: Path
) -> None:
    subject = Subject("one", tmp_path / "packages", tmp_path / "one")
    subject.write("1.0.0")
    names = [f"app-{number}" for number in range(PACKAGES)]
    installation.start()
    await asyncio.gather(*(installation.application(name, "one", "1.0.0") for name in names))
    for name in names:
        await installation.ready(name, "1.0.0", within=60)
    lines = subject.journal()
    objects = [await installation.object(name) for name in names]
    lengths = [await length_of(installation, name) for name in names]

    installation.kill()
    began = time.monotonic()
    installation.start()

    comparisons = await eventually(lambda: compared(installation)[1:], what="the second start's comparison")
    assert comparisons == [{"packages": PACKAGES, "signalled": 0}]

    async def answers(name: str) -> None:
        # A query is answered by a worker that has taken the lifecycle over; it is asked again when that takes long.
        view = await eventually(partial(installation.lifecycles.status, installation.key(name)))
        assert (view.phase, view.hold, view.failure) == ("Running", "Idle", None)

    await asyncio.gather(*(answers(name) for name in names))
    assert time.monotonic() - began <= ANSWERS_WITHIN

    assert [await length_of(installation, name) for name in names] == lengths
    assert [await installation.object(name) for name in names] == objects
    assert subject.journal() == lines
    assert all([await installation.release(name) == {1: "deployed"} for name in names])


async def test_signals_sent_again_change_nothing(installation: Installation, tmp_path: Path) -> None:
    subject = Subject("one", tmp_path / "packages", tmp_path / "one")
    subject.write("1.0.0")
    installation.start()
    await installation.application("one", "one", "1.0.0")
    first = await installation.ready("one", "1.0.0")
    seen = SeenStatus.model_validate(first["status"]["seen"])
    await installation.application("one", "one", "1.0.0", settings={"greeting": "hi"})
    await installation.ready("one", "1.0.0")
    journal = subject.journal()
    handle = handle_of(installation, "one")
    before = len((await handle.fetch_history()).events)

    # Again, late, and out of order: the first state was seen long ago.
    again = [DesiredChanged(seen=seen), DesiredChanged()] * (SIGNALS // 2)
    await asyncio.gather(*(handle.signal(PackageLifecycleWorkflow.desired_changed, one) for one in again))
    await installation.application("one", "one", "1.0.0", settings={"greeting": "bye"})
    await installation.ready("one", "1.0.0")

    found = cost((await handle.fetch_history()).events[before:])
    assert found.failed_tasks == 0
    assert found.remote["helm.upgrade_release"] == 1
    assert found.local["package.observe"] <= SIGNALS // 4, "a burst is looked at a few times, not once for each signal"
    assert len(await installation.release("one")) == 3
    assert len(subject.journal()) == len(journal) + 4, "one run of beforeHelm and afterHelm for the one change"


async def test_a_terminated_lifecycle_comes_back(installation: Installation, tmp_path: Path) -> None:
    idle = Subject("idle", tmp_path / "packages", tmp_path / "idle")
    busy = Subject("busy", tmp_path / "packages", tmp_path / "busy")
    for subject in (idle, busy):
        subject.write("1.0.0")
    busy.hold("beforeHelm")
    installation.start()
    await installation.application("idle", "idle", "1.0.0")
    await installation.application("busy", "busy", "1.0.0")
    before = await installation.ready("idle", "1.0.0")
    journal = idle.journal()
    await eventually(lambda: busy.wrote("beforeHelm started 1.0.0"))

    for name in ("idle", "busy"):
        await handle_of(installation, name).terminate("by hand")

    async def back() -> bool:
        found = [(await handle_of(installation, name).describe()).status for name in ("idle", "busy")]
        return found == [WorkflowExecutionStatus.RUNNING] * 2

    await eventually(back, BACK_WITHIN)
    run = (await handle_of(installation, "idle").describe()).run_id
    after = await installation.status("idle", lambda status: status["workflow"]["runId"] == run)
    assert after["status"]["version"] == "1.0.0"
    for type_ in ("Ready", "HelmApplied", "ReadyInCluster", "HooksProcessed", "SettingsValid"):
        assert condition(after, type_) == condition(before, type_), "the same since the same time"
    assert idle.journal() == journal
    assert await installation.release("idle") == {1: "deployed"}

    # Held until the new lifecycle's run has begun: that of the terminated one must be ended by then.
    await eventually(lambda: busy.journal().count("beforeHelm started 1.0.0") == 2)
    busy.go_on()
    await installation.ready("busy", "1.0.0")
    assert await installation.release("busy") == {1: "deployed"}
    runs = busy.journal()
    assert not [line for line in runs if "meets" in line]
    assert runs.count("beforeHelm finished 1.0.0") == 1, "the run of the terminated lifecycle was ended"
    assert runs.count("afterHelm finished 1.0.0") == 1
