"""What every run of a hook is made of: its inputs, its process, and making what it asked for true."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from windlass.activities.content import Content, Contents, State
from windlass.contracts.record import PackageRecord
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.configuration import config_values_file, failure_reason, values_file
from windlass.domain.hooks.patch_operations import Bounds, bounds_of, parse_operations
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Binding, Hook
from windlass.domain.settings.schema import raise_if_invalid, validate
from windlass.domain.settings.value_patches import accept
from windlass.domain.settings.values import VALUES_ROOT, base_values, camel_key
from windlass.domain.target import Placement
from windlass.ports.hooks import HookFailedError, HookOutput, HookPatchers, HookRun, Hooks
from windlass.ports.metrics import HookMetrics
from windlass.ports.targets import Acting, Role, Targets

type Journal = Callable[[PackageRecord, Outcome], PackageRecord]
"""Writes a run into the record: returns the record with whatever makes a repeated attempt recognise it."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of one hook of one package."""

    key: PackageKey
    placement: Placement
    uid: str
    hook: Hook
    binding: Binding
    context: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did: digest of the values after it, whether it changed them, and its seconds."""

    values: str
    changed: bool
    duration: float


class HookRuns:
    """Runs hooks. What a run asked for is checked as a whole before any of it is done."""

    def __init__(
        self, *, hooks: Hooks, targets: Targets, patchers: HookPatchers, metrics: HookMetrics, contents: Contents
    ) -> None:
        self._hooks = hooks
        self._targets = targets
        self._patchers = patchers
        self._metrics = metrics
        self._contents = contents

    async def run(
        self,
        call: Call,
        content: Content,
        state: State,
        journal: Journal,
        *,
        before_change: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[Outcome, State]:
        """Run the hook, then apply its object operations, then keep its values patch and the journal in one write.

        ``before_change`` is awaited before anything is done for a hook that patches values.

        Raises:
            TransientError: it failed, or what it asked for could not be done; the reason is that of its binding.
            PermanentError: it asked for what it must not; nothing of it was done.
        """
        async with self._targets.acting(call.placement.target) as acting:
            return await self._run(call, content, state, journal, acting, before_change)

    async def _run(
        self,
        call: Call,
        content: Content,
        state: State,
        journal: Journal,
        acting: Acting,
        before_change: Callable[[], Awaitable[None]] | None,
    ) -> tuple[Outcome, State]:
        run = self._prepared(call, content, state, acting)
        try:
            output = await self._hooks.run(run)
        except HookFailedError as failure:
            try:
                await self._execute(call, acting, failure.operations)
            except WindlassError as error:
                both = f"{failure.message}\nand what it asked for all the same failed too: {error.message}"
                raise TransientError(failure.reason, both, hint=failure.hint) from None
            raise
        with _attributed(call):
            self._accepted(call, content, state.record, output)
            if output.values_patch and before_change is not None:
                await before_change()
            await self._execute(call, acting, output.operations)
            self._metrics.record(call.key, call.hook.path, output.metrics)
            outcomes: list[Outcome] = []

            def journalled(record: PackageRecord) -> PackageRecord:
                # Checked against the newest record: another queue's hook may have patched the values meanwhile.
                patched = self._patched(call, content, record, output)
                values = self._contents.digest(self._contents.values(content, patched))
                changed = patched.patches != record.patches
                outcomes.append(Outcome(values=values, changed=changed, duration=output.duration))
                return journal(patched, outcomes[-1])

            saved = await self._contents.update(call.key, call.uid, state.ref, journalled)
        return outcomes[-1], saved

    async def _execute(self, call: Call, acting: Acting, operations: Sequence[Mapping[str, Any]]) -> None:
        if operations:
            patcher = self._patchers.over(await acting.kube(Role.HOOKS), call.key.package_id)
            await patcher.execute(operations, _bounds(call))

    def _prepared(self, call: Call, content: Content, state: State, acting: Acting) -> HookRun:
        name = content.package.definition.name
        values = self._contents.values(content, state.record)
        return HookRun(
            root=content.root,
            hook=call.hook,
            binding=call.binding,
            context=call.context,
            values=values_file(name, values, {}),
            config_values=config_values_file(name, state.record.settings or {}, {}),
            kubeconfig=acting.kubeconfig_text(),
            namespace=call.placement.target.namespace,
            package_id=call.key.package_id,
        )

    def _accepted(self, call: Call, content: Content, record: PackageRecord, output: HookOutput) -> None:
        """Check everything the hook asked for before any of it is done."""
        if output.config_values_patch:
            raise PermanentError(
                failure_reason(call.binding),
                "a patch of the config values is not served: settings belong to the object",
                hint="write computed values to VALUES_JSON_PATCH_PATH",
                actor=Actor.AUTHOR,
            )
        parse_operations(output.operations, _bounds(call))
        self._patched(call, content, record, output)

    def _patched(self, call: Call, content: Content, record: PackageRecord, output: HookOutput) -> PackageRecord:
        if not output.values_patch:
            return record
        base = base_values(content.package, content.schemas, record.settings or {})
        root = camel_key(content.package.definition.name)
        reason = failure_reason(call.binding)
        outcome = accept(base, record.patches, output.values_patch, root=root, reason=reason)
        if not outcome.changed:
            return record
        if content.schemas.values is not None:
            found = validate(outcome.values, content.schemas.values, root=VALUES_ROOT, concealed=outcome.values)
            raise_if_invalid(found, what="values after the hook's patch", actor=Actor.AUTHOR)
        return record.model_copy(update={"patches": outcome.stored})


def _bounds(call: Call) -> Bounds:
    return bounds_of(call.key, call.placement.target.namespace)


@contextmanager
def _attributed(call: Call) -> Generator[None]:
    """Give failures of what a hook asked for the hook's name and its binding's reason.

    They are put in the place of what they are made from: of a chain of causes, the first one is reported.
    """
    reason = failure_reason(call.binding)
    try:
        yield
    except PermanentError as error:
        message = f"{call.hook.path}: {error.message}"
        raise PermanentError(reason, message, hint=error.hint, actor=error.actor) from None
    except TransientError as error:
        if error.reason is Reason.STATE_LOST:
            raise
        raise TransientError(reason, f"{call.hook.path}: {error.message}", hint=error.hint) from None
