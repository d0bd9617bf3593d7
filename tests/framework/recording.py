"""Resources that write down what they are called with, and do what a table says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from windlass.framework import CRUDResource, Patch

type Step = Callable[[], Awaitable[None] | None]

LOGGER = structlog.get_logger()


class Boom(Exception):  # noqa: N818 - what a test raises
    pass


def boom() -> None:
    raise Boom


def obj(name: str = "web", *, uid: str = "u1", version: str = "1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version, **metadata},
        "spec": {},
    }


async def _act(actions: Mapping[str, Step], step: str) -> None:
    action = actions.get(step)
    if action is not None:
        result = action()
        if result is not None:
            await result


class Plain:
    """A plain resource; ``calls`` gets ``name.method``."""

    def __init__(self, name: str, calls: list[str], actions: Mapping[str, Step] | None = None) -> None:
        self.name = name
        self.calls = calls
        self.seen: list[Any] = []
        self._actions = actions or {}

    async def ensure_created(self, obj: Any) -> None:
        self.calls.append(f"{self.name}.ensure_created")
        self.seen.append(obj)
        await _act(self._actions, "ensure_created")

    async def ensure_deleted(self, obj: Any) -> None:
        self.calls.append(f"{self.name}.ensure_deleted")
        self.seen.append(obj)
        await _act(self._actions, "ensure_deleted")


class Ops:
    """CRUD steps; the patch has the parts of ``parts`` with these values."""

    def __init__(
        self,
        name: str,
        calls: list[str],
        actions: Mapping[str, Step] | None = None,
        *,
        parts: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.calls = calls
        self.arguments: dict[str, tuple[Any, ...]] = {}
        self._actions = actions or {}
        self._parts = {"create": "c", "delete": "d", "update": "u"} if parts is None else parts

    async def _step(self, step: str, *arguments: Any) -> None:
        self.calls.append(f"{self.name}.{step}")
        self.arguments[step] = arguments
        await _act(self._actions, step)

    async def get_current_state(self, obj: Any) -> Any:
        await self._step("get_current_state", obj)
        return "current"

    async def get_desired_state(self, obj: Any) -> Any:
        await self._step("get_desired_state", obj)
        return "desired"

    async def new_update_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch:
        await self._step("new_update_patch", obj, current_state, desired_state)
        return self._patch()

    async def new_delete_patch(self, obj: Any, current_state: Any, desired_state: Any) -> Patch:
        await self._step("new_delete_patch", obj, current_state, desired_state)
        return self._patch()

    async def apply_create_change(self, obj: Any, create_change: Any) -> None:
        await self._step("apply_create_change", obj, create_change)

    async def apply_delete_change(self, obj: Any, delete_change: Any) -> None:
        await self._step("apply_delete_change", obj, delete_change)

    async def apply_update_change(self, obj: Any, update_change: Any) -> None:
        await self._step("apply_update_change", obj, update_change)

    def _patch(self) -> Patch:
        patch = Patch()
        # Set in another order than applied.
        if "update" in self._parts:
            patch.set_update_change(self._parts["update"])
        if "delete" in self._parts:
            patch.set_delete_change(self._parts["delete"])
        if "create" in self._parts:
            patch.set_create_change(self._parts["create"])
        return patch


def crud(
    name: str, calls: list[str], actions: Mapping[str, Step] | None = None, *, parts: Mapping[str, Any] | None = None
) -> CRUDResource:
    return CRUDResource(logger=LOGGER, ops=Ops(name, calls, actions, parts=parts))
