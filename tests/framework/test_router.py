"""Router and sets (frameworks.md 1.2, 1.6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from framework.recording import LOGGER, Boom, Plain, obj
from structlog.testing import capture_logs

from windlass.framework import (
    ExecutionFailedError,
    FlagState,
    InvalidConfigError,
    NoResourceSetError,
    Resource,
    ResourceRouter,
    ResourceSet,
    default_resource_set_resource_func,
    deletion_allowed,
    reconciliation_canceled,
    resource_canceled,
    update_allowed,
    update_necessary,
)


def made(handles: bool = True, **options: Any) -> ResourceSet:
    resources: list[Resource] = [Plain("a", [])]
    return ResourceSet(handles=lambda _: handles, logger=LOGGER, resources=resources, **options)


def test_set_checks_in_their_order() -> None:
    with pytest.raises(InvalidConfigError, match="handles"):
        ResourceSet(handles=None, logger=None, resources=[])
    with pytest.raises(InvalidConfigError, match="logger"):
        ResourceSet(handles=bool, logger=None, resources=[])
    with pytest.raises(InvalidConfigError, match="resources"):
        ResourceSet(handles=bool, logger=LOGGER, resources=[])


def test_router_checks_in_their_order() -> None:
    with pytest.raises(InvalidConfigError, match="logger"):
        ResourceRouter(logger=None, resource_sets=[])
    with pytest.raises(InvalidConfigError, match="resource sets"):
        ResourceRouter(logger=LOGGER, resource_sets=[])


def test_the_one_that_handles_wherever_it_stands() -> None:
    mine = made()
    for sets in ([mine, made(False)], [made(False), mine], [mine]):
        assert ResourceRouter(logger=LOGGER, resource_sets=sets).resource_set(obj()) is mine


def test_every_set_is_asked() -> None:
    asked: list[str] = []

    def asks(name: str, answer: bool) -> ResourceSet:
        def handles(_: Any) -> bool:
            asked.append(name)
            return answer

        return ResourceSet(handles=handles, logger=LOGGER, resources=[Plain("a", [])])

    router = ResourceRouter(logger=LOGGER, resource_sets=[asks("a", True), asks("b", True), asks("c", False)])
    with pytest.raises(ExecutionFailedError, match="2 resource sets handle Widget/shop/web"):
        router.resource_set(obj())
    assert asked == ["a", "b", "c"]


@pytest.mark.parametrize(("one", "level"), [(obj(), "debug"), (None, "warning"), ("text", "warning"), ({}, "warning")])
def test_nobody_handles_it(one: Any, level: str) -> None:
    with capture_logs() as logs, pytest.raises(NoResourceSetError):
        ResourceRouter(logger=structlog.get_logger(), resource_sets=[made(False)]).resource_set(one)
    assert [line["log_level"] for line in logs] == [level]


async def in_a_task(one: ResourceSet, value: Any) -> dict[str, Any]:
    """Prepare a context and tell what is in it."""

    async def prepare() -> dict[str, Any]:
        await one.init_ctx(value)
        flags = [reconciliation_canceled, resource_canceled, update_allowed, update_necessary, deletion_allowed]
        return {
            "flags": [flag.current() is not None for flag in flags],
            "object": structlog.contextvars.get_contextvars().get("object"),
        }

    return await asyncio.create_task(prepare())


async def test_init_ctx_installs_all_but_deletion_allowed() -> None:
    assert await in_a_task(made(), obj()) == {"flags": [True] * 4 + [False], "object": "Widget/shop/web"}
    assert update_allowed.current() is None


async def test_the_sets_own_function_comes_last() -> None:
    theirs = FlagState()

    async def own(value: Any) -> None:
        assert value["kind"] == "Widget"
        assert update_allowed.current() is not None
        update_allowed.install(theirs)
        deletion_allowed.install()

    async def prepare() -> bool:
        await made(init_ctx=own).init_ctx(obj())
        return update_allowed.current() is theirs and deletion_allowed.current() is not None

    assert await asyncio.create_task(prepare())


async def test_its_error_comes_out() -> None:
    async def own(_: Any) -> None:
        raise Boom

    with pytest.raises(Boom):
        await in_a_task(made(init_ctx=own), obj())


@pytest.mark.parametrize("one", [None, "text", {"metadata": 1}])
async def test_without_metadata_there_is_a_warning_and_no_field(one: Any) -> None:
    with capture_logs() as logs:
        set_ = ResourceSet(handles=bool, logger=structlog.get_logger(), resources=[Plain("a", [])])
        assert (await in_a_task(set_, one))["object"] is None
    assert [line["log_level"] for line in logs] == ["warning"]


async def test_default_resource_set_resource_func_ignores_the_object() -> None:
    resources = [Plain("a", []), Plain("b", [])]
    function = default_resource_set_resource_func(resources)
    assert await function(obj()) == resources
    assert await function(None) == resources
