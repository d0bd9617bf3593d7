from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from activities.fakes import ARTIFACT, HOOK, KEY, PLACED, Bench, package

from windlass.activities.hooks.lifecycle import HookActivities
from windlass.contracts.record import RecordRef
from windlass.contracts.steps import HookRequest, HookResult
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.metrics import Action, Sample
from windlass.domain.packages.model import Binding
from windlass.ports.hooks import HookFailedError, HookOutput

CREATE = {
    "operation": "Create",
    "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-x"}, "data": {}},
}
PATCH = {"op": "add", "path": "/web/replicas", "value": 3}


def activities(bench: Bench) -> HookActivities:
    return HookActivities(runs=bench.hook_runs, watches=bench.watches, contents=bench.contents)


def request(ref: RecordRef | None, run_id: str = "run-1", binding: Binding = Binding.BEFORE_HELM) -> HookRequest:
    return HookRequest(
        key=KEY, placement=PLACED, uid="u1", artifact=ARTIFACT, hook=HOOK, binding=binding, run_id=run_id, record=ref
    )


async def run(bench: Bench, run_id: str = "run-1", **more: Any) -> HookResult:
    ref = bench.records.stored[KEY][1] if KEY in bench.records.stored else None
    return await bench.run(activities(bench).run, request(ref, run_id, **more))


def prepared(*outputs: HookOutput | Exception, **record: Any) -> Bench:
    bench = Bench()
    bench.hooks.outputs = list(outputs or (HookOutput(),))
    bench.records.put(**{"settings": {"port": 80}, **record})
    return bench


async def test_a_hook_gets_its_files_and_its_own_identity() -> None:
    bench = prepared()
    await run(bench)
    (ran,) = bench.hooks.runs
    assert ran.context == [{"binding": "beforeHelm", "snapshots": {}}]
    assert ran.values == {"global": {}, "web": {"replicas": 1, "port": 80}}
    assert ran.config_values["web"]["port"] == 80
    assert ran.kubeconfig == "kubeconfig of service account windlass-application in prod"
    assert (ran.namespace, ran.package_id, ran.hook) == ("prod", "prod.web", HOOK)


async def test_a_values_patch_is_kept_and_changes_the_digest() -> None:
    bench = prepared(HookOutput(), HookOutput(values_patch=[PATCH]))
    before = await run(bench, "run-1")
    after = await run(bench, "run-2")
    assert before.values != after.values
    assert bench.records.record.patches == (PATCH,)
    assert after.record == bench.records.stored[KEY][1]


async def test_a_run_that_is_journalled_is_not_repeated() -> None:
    bench = prepared(HookOutput(values_patch=[PATCH], duration=1.5))
    first = await run(bench)
    again = await run(bench)
    assert len(bench.hooks.runs) == 1
    assert again == first
    await run(bench, "run-2")
    assert len(bench.hooks.runs) == 2


async def test_operations_are_executed_with_the_hooks_own_rights_before_the_patch_is_kept() -> None:
    bench = prepared(HookOutput(operations=[CREATE], values_patch=[PATCH]))
    await run(bench)
    assert (bench.patchers.executed, bench.targets.acted) == ([[CREATE]], [PLACED.target])
    assert bench.records.record.patches == (PATCH,)


@pytest.mark.parametrize(
    ("failure", "category"),
    [
        (TransientError(Reason.API_CONFLICT, "ConfigMap/web-x exists", hint="use CreateOrUpdate"), TransientError),
        (PermanentError(Reason.FORBIDDEN, "may not create Nodes", actor=Actor.AUTHOR), PermanentError),
    ],
)
async def test_what_a_hook_asked_for_in_vain_is_the_hooks_failure(
    failure: WindlassError, category: type[WindlassError]
) -> None:
    bench = prepared(HookOutput(operations=[CREATE], values_patch=[PATCH]))
    bench.patchers.failure = failure
    with pytest.raises(category) as failed:
        await run(bench)
    assert failed.value.reason is Reason.BEFORE_HELM_HOOKS_FAILED
    assert failed.value.message.startswith("hooks/10-secret.sh: ")
    assert failed.value.hint == failure.hint
    assert bench.records.record.patches == ()
    assert bench.records.record.journal == ()


async def test_what_a_failed_hook_asked_for_nevertheless_is_done_and_the_failure_stays() -> None:
    failure = HookFailedError(Reason.BEFORE_HELM_HOOKS_FAILED, "it broke", hint="mend it", operations=[CREATE])
    bench = prepared(failure)
    with pytest.raises(HookFailedError, match="it broke"):
        await run(bench)
    assert (bench.patchers.executed, bench.targets.acted) == ([[CREATE]], [PLACED.target])
    assert bench.records.record.journal == ()

    bench.patchers.failure = TransientError(Reason.API_CONFLICT, "ConfigMap/web-x exists")
    with pytest.raises(TransientError, match=r"it broke\nand what it asked for all the same failed too: ConfigMap"):
        await run(bench, "run-2")


async def test_metrics_are_taken_over_and_broken_ones_fail_the_run() -> None:
    runs = Sample(action=Action.ADD, name="runs", value=1)
    bench = prepared(HookOutput(metrics=(runs,)), HookOutput(metrics=(replace(runs, action=Action.SET),)))
    await run(bench, "run-1")
    (family,) = bench.metrics.collect()
    assert [(one.name, one.labels, one.value) for one in family.samples] == [
        ("runs", {"package": "prod.web", "hook": "hooks/10-secret.sh"}, 1)
    ]
    with pytest.raises(PermanentError, match=r"METRICS_PATH: name: runs is a counter already") as told:
        await run(bench, "run-2")
    assert told.value.reason is Reason.BEFORE_HELM_HOOKS_FAILED


@pytest.mark.parametrize(
    "output",
    [
        HookOutput(operations=[CREATE], values_patch=[{"op": "add", "path": "/other/x", "value": 1}]),
        HookOutput(operations=[CREATE], config_values_patch=[PATCH]),
        HookOutput(operations=[CREATE, {"operation": "Explode"}]),
        HookOutput(operations=[CREATE], values_patch=[{"op": "add", "path": "/web/port", "value": "no port"}]),
    ],
    ids=["outside its key", "config values", "unknown operation", "against the schema"],
)
async def test_nothing_is_done_when_something_it_asked_for_is_refused(output: HookOutput) -> None:
    bench = prepared(output)
    bench.packages.package = package(
        values_schema={"type": "object", "properties": {"port": {"type": "integer"}, "replicas": {"type": "integer"}}}
    )
    with pytest.raises(PermanentError):
        await run(bench)
    assert bench.patchers.executed == []
    assert bench.records.record.patches == ()


async def test_a_failed_run_is_not_journalled() -> None:
    failure = TransientError(Reason.BEFORE_HELM_HOOKS_FAILED, "hooks/10-secret.sh: exit status 1")
    bench = prepared(failure, HookOutput())
    with pytest.raises(TransientError):
        await run(bench)
    await run(bench)
    assert len(bench.hooks.runs) == 2


async def test_hooks_of_one_package_never_meet() -> None:
    bench = prepared()
    steps, ref = activities(bench), bench.records.stored[KEY][1]
    others = [type(bench.environment)() for _ in range(3)]
    results = await asyncio.gather(
        *(other.run(steps.run, request(ref, f"run-{index}")) for index, other in enumerate(others))
    )
    assert len(results) == len(bench.hooks.runs) == 3
    assert not bench.hooks.met
    assert len(bench.records.record.journal) == 3


async def test_a_lost_record_stops_a_start_and_not_a_farewell() -> None:
    bench = Bench()
    with pytest.raises(TransientError) as refused:
        await run(bench)
    assert refused.value.reason is Reason.STATE_LOST
    assert bench.hooks.runs == []
    await run(bench, binding=Binding.BEFORE_DELETE_HELM)
    assert len(bench.hooks.runs) == 1
