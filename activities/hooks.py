"""Runs one hook once, and makes what it asked for true."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from temporalio import activity

from windlass.activities.content import VALUES_ROOT, Content, Contents, State
from windlass.activities.heartbeat import heartbeating
from windlass.contracts.record import PackageRecord
from windlass.contracts.steps import HookRequest, HookResult
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks import binding_context, config_values_file, failure_reason, values_file
from windlass.domain.ids import PackageKey, hook_account_name
from windlass.domain.package import Binding, Values
from windlass.domain.patch_operations import bounds_of, parse_operations
from windlass.domain.schema import raise_if_invalid, validate
from windlass.domain.value_patches import accept
from windlass.domain.values import base_values, camel_key
from windlass.ports.hooks import HookAccess, HookFailedError, HookOutput, HookPatchers, HookRun, Hooks
from windlass.ports.metrics import HookMetrics

TEARDOWN = frozenset({Binding.BEFORE_DELETE_HELM, Binding.AFTER_DELETE_HELM})
"""Hooks of a removal run with what is left, also when somebody has deleted the state Secret."""


class HookActivities:
    """A run is journalled in the state Secret before the activity returns: a repeated attempt runs nothing."""

    def __init__(
        self, *, hooks: Hooks, access: HookAccess, patchers: HookPatchers, metrics: HookMetrics, contents: Contents
    ) -> None:
        self._hooks = hooks
        self._access = access
        self._patchers = patchers
        self._metrics = metrics
        self._contents = contents
        self._locks: WeakValueDictionary[PackageKey, asyncio.Lock] = WeakValueDictionary()

    @activity.defn(name="hook.run")
    async def run(self, request: HookRequest) -> HookResult:
        """Run the hook, then apply its object operations, then keep its values patch.

        Hooks of one package never meet: an attempt that Temporal has given up, because it heard nothing for a while,
        may still be running here, and the next one waits for its end.
        """
        lock = self._locks.setdefault(request.key, asyncio.Lock())
        async with heartbeating() as beat, lock:
            beat.details = f"{request.binding.value}: {request.hook.path}"
            content = await self._contents.ensure(request.artifact)
            read = self._contents.state if request.binding in TEARDOWN else self._contents.applied
            state = await read(request.key, request.uid, request.record)
            if (journalled := state.record.hook_result(request.run_id)) is not None:
                return HookResult.model_validate(journalled).model_copy(update={"record": state.ref})
            values = self._contents.values(content, state.record)
            run = await self._prepared(request, content, state, values)
            try:
                output = await self._hooks.run(run)
            except HookFailedError as failure:
                try:
                    await self._execute(request, run, failure.operations)
                except WindlassError as error:
                    both = f"{failure.message}\nand what it asked for all the same failed too: {error.message}"
                    raise TransientError(failure.reason, both, hint=failure.hint) from None
                raise
            with _attributed(request):
                record = self._accepted(request, content, state.record, output)
                await self._execute(request, run, output.operations)
                self._metrics.record(request.key, request.hook.path, output.metrics)
            after = self._contents.values(content, record)
            result = HookResult(values=self._contents.digest(after), duration=output.duration)
            record = record.with_hook_run(request.run_id, result.model_dump(mode="json", exclude={"record"}))
            saved = await self._contents.save(request.key, state, record)
        return result.model_copy(update={"record": saved.ref})

    async def _execute(self, request: HookRequest, run: HookRun, operations: Sequence[Mapping[str, Any]]) -> None:
        if operations:
            async with self._patchers.acting_as(run.kubeconfig) as patcher:
                await patcher.execute(operations, bounds_of(request.key))

    async def _prepared(self, request: HookRequest, content: Content, state: State, values: Values) -> HookRun:
        namespace = request.key.target_namespace
        name = content.package.definition.name
        return HookRun(
            root=content.root,
            hook=request.hook,
            binding=request.binding,
            context=binding_context(request.binding),
            values=values_file(name, values, {}),
            config_values=config_values_file(name, state.record.settings or {}, {}),
            kubeconfig=await self._access.kubeconfig(
                namespace, hook_account_name(request.key), cluster_wide=request.key.cluster_wide
            ),
            namespace=namespace,
            package_id=request.key.package_id,
        )

    def _accepted(
        self, request: HookRequest, content: Content, record: PackageRecord, output: HookOutput
    ) -> PackageRecord:
        """Check everything the hook asked for before any of it is done; return the record with its values patch."""
        reason = failure_reason(request.binding)
        if output.config_values_patch:
            raise PermanentError(
                reason,
                "a patch of the config values is not served: settings belong to the object",
                hint="write computed values to VALUES_JSON_PATCH_PATH",
                actor=Actor.AUTHOR,
            )
        parse_operations(output.operations, bounds_of(request.key))
        if not output.values_patch:
            return record
        return self._patched(content, record, output.values_patch, reason)

    def _patched(
        self, content: Content, record: PackageRecord, patch: list[dict[str, Any]], reason: Reason
    ) -> PackageRecord:
        base = base_values(content.package, content.schemas, record.settings or {})
        root = camel_key(content.package.definition.name)
        outcome = accept(base, record.patches, patch, root=root, reason=reason)
        if not outcome.changed:
            return record
        if content.schemas.values is not None:
            found = validate(outcome.values, content.schemas.values, root=VALUES_ROOT, concealed=outcome.values)
            raise_if_invalid(found, what="values after the hook's patch", actor=Actor.AUTHOR)
        return record.model_copy(update={"patches": outcome.stored})


@contextmanager
def _attributed(request: HookRequest) -> Generator[None]:
    """Give failures of what a hook asked for the hook's name and its binding's reason.

    They are put in the place of what they are made from: of a chain of causes, the first one is reported.
    """
    try:
        yield
    except PermanentError as error:
        message = f"{request.hook.path}: {error.message}"
        raise PermanentError(failure_reason(request.binding), message, hint=error.hint, actor=error.actor) from None
    except TransientError as error:
        message = f"{request.hook.path}: {error.message}"
        raise TransientError(failure_reason(request.binding), message, hint=error.hint) from None
