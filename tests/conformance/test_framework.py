"""What holds of a framework's operator, whatever way it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from conformance.how import Action, HowToRun, Observed, ResourceSpec, SetSpec

from support.waiting import eventually
from windlass.framework import reconciliation_canceled, resource_canceled

WITHIN = 30.0
UPDATE = [
    "get_current_state",
    "get_desired_state",
    "new_update_patch",
    "apply_create_change",
    "apply_delete_change",
    "apply_update_change",
]
DELETE = [step.replace("new_update", "new_delete") for step in UPDATE]


def boom() -> None:
    raise RuntimeError("boom")


def both() -> None:
    reconciliation_canceled.set()
    boom()


def steps(name: str, event: str, number: int = 6) -> list[str]:
    return [f"{name}.{step}" for step in (UPDATE if event == "update" else DELETE)[:number]]


def method(name: str, event: str) -> str:
    return f"{name}.{'ensure_created' if event == 'update' else 'ensure_deleted'}"


async def settled(running: Observed) -> None:
    async with asyncio.timeout(WITHIN):
        await running.settled()


@dataclass(frozen=True, kw_only=True)
class Case:
    """An operator, and what each event calls, in order."""

    resources: Sequence[ResourceSpec]
    update: Sequence[str]
    delete: Sequence[str] = field(default_factory=list[str])


def plain(name: str, actions: Mapping[str, Action] | None = None, **options: Any) -> ResourceSpec:
    return ResourceSpec(name=name, actions=actions or {}, **options)


def crud(name: str, actions: Mapping[str, Action] | None = None, **options: Any) -> ResourceSpec:
    return ResourceSpec(name=name, crud=True, actions=actions or {}, **options)


CASES: dict[str, Case] = {
    "in order": Case(
        resources=[plain("x"), crud("y"), plain("z")],
        update=[method("x", "update"), *steps("y", "update"), method("z", "update")],
        delete=[method("x", "delete"), *steps("y", "delete"), method("z", "delete")],
    ),
    "an error stops the chain": Case(
        resources=[plain("x"), plain("y", {"ensure_created": boom, "ensure_deleted": boom}), plain("z")],
        update=[method("x", "update"), method("y", "update")],
        delete=[method("x", "delete"), method("y", "delete")],
    ),
    "a canceled reconciliation stops the chain": Case(
        resources=[crud("x", {"get_desired_state": reconciliation_canceled.set}), plain("y")],
        update=steps("x", "update", 2),
        delete=steps("x", "delete", 2),
    ),
    "a canceled resource stops itself only": Case(
        resources=[crud("x", {"apply_create_change": resource_canceled.set}), crud("y")],
        update=[*steps("x", "update", 4), *steps("y", "update")],
        delete=[*steps("x", "delete", 4), *steps("y", "delete")],
    ),
    "an error wins over a cancel": Case(
        resources=[plain("x", {"ensure_created": both}), plain("y")],
        update=[method("x", "update")],
        delete=[method("x", "delete"), method("y", "delete")],
    ),
    "parts that are not set are left out, None is a value": Case(
        resources=[crud("x", parts={"update": None})],
        update=[*steps("x", "update", 3), "x.apply_update_change"],
        delete=[*steps("x", "delete", 3), "x.apply_update_change"],
    ),
    "a step is tried again alone until its budget is spent": Case(
        resources=[crud("x", {"get_desired_state": boom}, retries=2), plain("y")],
        update=["x.get_current_state", *["x.get_desired_state"] * 3],
        delete=["x.get_current_state", *["x.get_desired_state"] * 3],
    ),
    "a plain resource is tried again whole": Case(
        resources=[plain("x", {"ensure_created": boom}, retries=1)],
        update=[method("x", "update")] * 2,
        delete=[method("x", "delete")],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_call_order(how: HowToRun, name: str) -> None:
    case = CASES[name]
    async with how.framework([SetSpec(handles=["a"], resources=case.resources)]) as running:
        await running.put("one")
        await settled(running)
        assert running.calls("one") == case.update
        await running.delete("one")
        await settled(running)
        assert running.calls("one")[len(case.update) :] == case.delete


async def test_every_change_is_reconciled(how: HowToRun) -> None:
    async with how.framework([SetSpec(handles=["a"], resources=[plain("x")])]) as running:
        for version in (1, 2, 3):
            await running.put("one", version=version)
            await settled(running)
        assert running.calls("one") == ["x.ensure_created"] * 3


async def test_an_error_of_one_event_is_forgotten_at_the_next(how: HowToRun) -> None:
    left = [1, 1]

    def twice() -> None:
        if left:
            left.pop()
            boom()

    resources = [plain("x", {"ensure_created": twice}), plain("y")]
    async with how.framework([SetSpec(handles=["a"], resources=resources)]) as running:
        for version in (1, 2, 3):
            await running.put("one", version=version)
            await settled(running)
        assert running.calls("one") == ["x.ensure_created"] * 3 + ["y.ensure_created"]


async def test_sets_by_object_and_by_version(how: HowToRun) -> None:
    sets = [
        SetSpec(handles=["a", "both"], resources=[plain("old")]),
        SetSpec(handles=["b", "both"], resources=[plain("new")]),
    ]
    async with how.framework(sets) as running:
        await running.put("one", set="a")
        await running.put("nobody", set="c")
        await running.put("everybody", set="both")
        await settled(running)
        await running.put("one", set="b", version=2)
        await settled(running)
        assert running.calls("one") == ["old.ensure_created", "new.ensure_created"]
        assert running.calls("nobody") == running.calls("everybody") == []


async def test_never_two_chains_on_one_object_and_the_last_word_is_heard(how: HowToRun) -> None:
    inside = most = 0

    async def count() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1

    slow = plain("x", {"ensure_created": count, "ensure_deleted": count})
    async with how.framework([SetSpec(handles=["a"], resources=[slow])]) as running:
        for version in range(1, 6):
            await running.put("one", version=version)
        await running.delete("one")
        await eventually(lambda: running.calls("one")[-1:] == ["x.ensure_deleted"], WITHIN)
        assert most == 1


async def test_an_object_that_is_stuck_or_retried_keeps_no_other_waiting(how: HowToRun) -> None:
    go = asyncio.Event()

    async def stuck() -> None:
        await go.wait()
        boom()

    sets = [
        SetSpec(handles=["a"], resources=[plain("x", {"ensure_created": stuck}, retries=5)]),
        SetSpec(handles=["b"], resources=[plain("y")]),
    ]
    async with how.framework(sets) as running:
        await running.put("stuck", set="a")
        for number in range(10):
            await running.put(f"free-{number}", set="b")
        await eventually(lambda: all(running.calls(f"free-{number}") for number in range(10)), WITHIN)
        assert running.calls("stuck") == ["x.ensure_created"]
        go.set()
        await settled(running)
        assert running.calls("stuck") == ["x.ensure_created"] * 6
