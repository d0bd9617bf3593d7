"""Call order for every event, cancellation and error (frameworks.md 1.3, 1.4, 1.8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from framework.recording import LOGGER, Boom, Ops, Plain, Step, boom, crud, obj

from windlass.framework import (
    CRUDResource,
    ExecutionFailedError,
    InvalidConfigError,
    Patch,
    deletion_allowed,
    is_execution_failed,
    process_delete,
    process_update,
    reconciliation_canceled,
    resource_canceled,
    update_allowed,
)

PROCESS = {"update": process_update, "delete": process_delete}
METHOD = {"update": "ensure_created", "delete": "ensure_deleted"}
PLAN = {"update": "new_update_patch", "delete": "new_delete_patch"}


def steps(event: str) -> list[str]:
    return [
        "get_current_state",
        "get_desired_state",
        PLAN[event],
        "apply_create_change",
        "apply_delete_change",
        "apply_update_change",
    ]


@pytest.mark.parametrize("event", PROCESS)
class TestPlain:
    async def test_resources_run_in_their_order(self, event: str) -> None:
        calls: list[str] = []
        await PROCESS[event](obj(), [Plain("b", calls), Plain("a", calls), Plain("c", calls)])
        assert calls == [f"{name}.{METHOD[event]}" for name in "bac"]

    async def test_no_resources_is_an_error(self, event: str) -> None:
        with pytest.raises(ExecutionFailedError) as raised:
            await PROCESS[event](obj(), [])
        assert is_execution_failed(raised.value)

    async def test_an_error_ends_it_and_comes_out_as_it_is(self, event: str) -> None:
        calls: list[str] = []
        with pytest.raises(Boom):
            await PROCESS[event](
                obj(), [Plain("a", calls), Plain("b", calls, {METHOD[event]: boom}), Plain("c", calls)]
            )
        assert calls == [f"a.{METHOD[event]}", f"b.{METHOD[event]}"]

    async def test_a_canceled_reconciliation_ends_without_an_error(self, event: str) -> None:
        calls: list[str] = []
        cancels = Plain("a", calls, {METHOD[event]: reconciliation_canceled.set})
        await PROCESS[event](obj(), [cancels, Plain("b", calls)])
        assert calls == [f"a.{METHOD[event]}"]

    async def test_an_error_wins_over_a_cancel(self, event: str) -> None:
        def both() -> None:
            reconciliation_canceled.set()
            boom()

        with pytest.raises(Boom):
            await PROCESS[event](obj(), [Plain("a", [], {METHOD[event]: both})])

    async def test_a_canceled_resource_is_no_canceled_chain(self, event: str) -> None:
        calls: list[str] = []
        await PROCESS[event](obj(), [Plain("a", calls, {METHOD[event]: resource_canceled.set}), Plain("b", calls)])
        assert calls == [f"a.{METHOD[event]}", f"b.{METHOD[event]}"]

    async def test_the_log_names_the_resource_while_it_runs(self, event: str) -> None:
        seen: list[dict[str, Any]] = []

        def look() -> None:
            seen.append(structlog.contextvars.get_contextvars())

        await PROCESS[event](obj(), [Plain("a", [], {METHOD[event]: look}), Plain("b", [], {METHOD[event]: look})])
        assert seen == [{"resource": "a"}, {"resource": "b"}]
        assert "resource" not in structlog.contextvars.get_contextvars()


@pytest.mark.parametrize("event", PROCESS)
class TestCrud:
    async def test_all_steps_in_their_order(self, event: str) -> None:
        calls: list[str] = []
        await PROCESS[event](obj(), [crud("a", calls), crud("b", calls)])
        assert calls == [f"{name}.{step}" for name in "ab" for step in steps(event)]

    async def test_arguments(self, event: str) -> None:
        ops, one = Ops("a", []), obj()
        await PROCESS[event](one, [CRUDResource(logger=LOGGER, ops=ops)])
        assert ops.arguments == {
            "get_current_state": (one,),
            "get_desired_state": (one,),
            PLAN[event]: (one, "current", "desired"),
            "apply_create_change": (one, "c"),
            "apply_delete_change": (one, "d"),
            "apply_update_change": (one, "u"),
        }

    @pytest.mark.parametrize("number", range(6))
    @pytest.mark.parametrize("flag", ["reconciliation", "resource"])
    async def test_a_cancel_lets_the_step_end_and_no_further_one_begin(
        self, event: str, number: int, flag: str
    ) -> None:
        calls: list[str] = []
        cancel = {"reconciliation": reconciliation_canceled.set, "resource": resource_canceled.set}[flag]
        await PROCESS[event](obj(), [crud("a", calls, {steps(event)[number]: cancel}), crud("b", calls)])
        done = [f"a.{step}" for step in steps(event)[: number + 1]]
        # What is canceled is this resource; the next one runs whole.
        assert calls == (done if flag == "reconciliation" else done + [f"b.{step}" for step in steps(event)])

    @pytest.mark.parametrize("number", range(6))
    async def test_an_error_ends_it_in_its_step(self, event: str, number: int) -> None:
        calls: list[str] = []

        def both() -> None:
            resource_canceled.set()
            boom()

        with pytest.raises(Boom):
            await PROCESS[event](obj(), [crud("a", calls, {steps(event)[number]: both}), crud("b", calls)])
        assert calls == [f"a.{step}" for step in steps(event)[: number + 1]]

    @pytest.mark.parametrize("parts", [[], ["create"], ["delete"], ["update"], ["update", "create"]])
    async def test_only_parts_that_are_set_are_applied_none_too(self, event: str, parts: list[str]) -> None:
        calls: list[str] = []
        ops = Ops("a", calls, parts=dict.fromkeys(parts))
        await PROCESS[event](obj(), [CRUDResource(logger=LOGGER, ops=ops)])
        applied = [f"apply_{part}_change" for part in ("create", "delete", "update") if part in parts]
        assert calls == [f"a.{step}" for step in [*steps(event)[:3], *applied]]
        assert [ops.arguments[step][1] for step in applied] == [None] * len(parts)

    async def test_no_patch_applies_nothing(self, event: str) -> None:
        calls: list[str] = []

        class Nothing(Ops):
            async def new_update_patch(self, obj: Any, current_state: Any, desired_state: Any) -> None:
                del obj, current_state, desired_state

            new_delete_patch = new_update_patch

        await PROCESS[event](obj(), [CRUDResource(logger=LOGGER, ops=Nothing("a", calls))])
        assert calls == ["a.get_current_state", "a.get_desired_state"]

    async def test_the_log_names_the_step_while_it_runs(self, event: str) -> None:
        seen: list[str] = []

        def look() -> None:
            seen.append(structlog.contextvars.get_contextvars()["function"])

        actions: dict[str, Step] = dict.fromkeys(steps(event), look)
        await PROCESS[event](obj(), [crud("a", [], actions)])
        assert seen == steps(event)
        assert "function" not in structlog.contextvars.get_contextvars()


def test_crud_constructor_checks_in_their_order() -> None:
    with pytest.raises(InvalidConfigError, match="logger"):
        CRUDResource(logger=None, ops=None)
    with pytest.raises(InvalidConfigError, match="ops"):
        CRUDResource(logger=LOGGER, ops=None)
    with pytest.raises(InvalidConfigError, match="name of Ops"):
        CRUDResource(logger=LOGGER, ops=Ops("", []))


class TestPatch:
    def test_set_is_presence_and_not_truth(self) -> None:
        patch = Patch()
        assert patch.changes() == ()
        patch.set_update_change(False)
        patch.set_create_change(None)
        assert [(part.value, value) for part, value in patch.changes()] == [("create", None), ("update", False)]

    def test_setting_again_replaces(self) -> None:
        patch = Patch()
        patch.set_delete_change(1)
        patch.set_delete_change(2)
        assert [value for _, value in patch.changes()] == [2]

    def test_its_text_holds_no_values(self) -> None:
        patch = Patch()
        patch.set_create_change("hunter2")
        assert repr(patch) == "Patch(create)"


class TestFlags:
    async def test_without_installation_nothing_happens(self) -> None:
        deletion_allowed.set()
        assert not deletion_allowed.is_set()
        assert deletion_allowed.current() is None

    async def test_installed_for_a_block(self) -> None:
        with update_allowed.installed() as state:
            update_allowed.set()
            update_allowed.set()
            assert update_allowed.is_set()
            assert state.is_set
        assert not update_allowed.is_set()

    async def test_a_child_task_sets_its_parents_flag(self) -> None:
        async def cancel() -> None:
            reconciliation_canceled.set()

        calls: list[str] = []

        async def in_a_task() -> None:
            await asyncio.create_task(cancel())

        await process_update(obj(), [Plain("a", calls, {"ensure_created": in_a_task}), Plain("b", calls)])
        assert calls == ["a.ensure_created"]

    async def test_chains_side_by_side_see_nothing_of_each_other(self) -> None:
        calls: list[str] = []
        waits = asyncio.Event()

        async def wait() -> None:
            await waits.wait()

        slow = [Plain("slow", calls, {"ensure_created": wait}), Plain("after", calls)]
        quick = [Plain("quick", calls, {"ensure_created": reconciliation_canceled.set}), Plain("never", calls)]
        running = asyncio.create_task(process_update(obj("slow"), slow))
        await asyncio.sleep(0)
        await process_update(obj("quick"), quick)
        waits.set()
        await running
        assert calls == ["slow.ensure_created", "quick.ensure_created", "after.ensure_created"]

    async def test_a_chain_inside_a_chain_cancels_itself_only(self) -> None:
        calls: list[str] = []
        inner = [Plain("inner", calls, {"ensure_deleted": reconciliation_canceled.set}), Plain("never", calls)]

        async def start() -> None:
            await process_delete(obj("other"), inner)

        await process_update(obj(), [Plain("outer", calls, {"ensure_created": start}), Plain("after", calls)])
        assert calls == ["outer.ensure_created", "inner.ensure_deleted", "after.ensure_created"]

    async def test_a_direct_call_leaves_nothing_behind(self) -> None:
        await process_update(obj(), [Plain("a", [], {"ensure_created": reconciliation_canceled.set})])
        assert reconciliation_canceled.current() is None
        calls: list[str] = []
        await process_update(obj(), [Plain("a", calls), Plain("b", calls)])
        assert len(calls) == 2

    async def test_a_flag_the_caller_installed_is_used(self) -> None:
        with reconciliation_canceled.installed() as mine:
            await process_update(obj(), [Plain("a", [], {"ensure_created": reconciliation_canceled.set})])
        assert mine.is_set
