"""Executes the object operations of hooks behind `ports.ObjectPatcher`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.hooks.patch_operations import (
    Bounds,
    CreateObject,
    DeleteObject,
    FilterObject,
    IfExists,
    Operation,
    PatchObject,
    parse_operations,
    resolved,
)
from windlass.domain.text.documents import is_object
from windlass.domain.text.doubles import unrounded
from windlass.ports.hooks import ObjectPatcher
from windlass.ports.jq import Jq, SharedJq
from windlass.ports.kube import Kube, Object, ObjectRef

DELETE_TIMEOUT: Final = 20.0
"""Seconds that a foreground deletion is waited for (reference: hooks.md section 6)."""

_POLLS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between looks; the last one repeats
_REPLACE_ATTEMPTS: Final = 5  # lost races against other writers of one object


class KubeHookPatchers:
    """`ports.HookPatchers`."""

    def __init__(self, jq: SharedJq) -> None:
        self._jq = jq

    def over(self, kube: Kube, package: str) -> ObjectPatcher:
        """Return a patcher over the client of a hook's identity; see `ports.HookPatchers`."""
        return KubePatcher(kube, self._jq.on_behalf_of(package))


class KubePatcher:
    """Operations over one `Kube` client, whose rights and rate limit are those of the hook's operations."""

    def __init__(self, kube: Kube, jq: Jq, *, delete_timeout: float = DELETE_TIMEOUT) -> None:
        self._kube = kube
        self._jq = jq
        self._delete_timeout = delete_timeout

    async def execute(self, operations: Sequence[Mapping[str, Any]], bounds: Bounds) -> None:
        """Execute all operations in order; see `ports.ObjectPatcher`.

        Nothing is executed before every operation is known to be well-formed, within bounds, of a kind that lives
        where it says, and with a valid filter.

        Raises:
            PermanentError: an operation is malformed or out of bounds; nothing was executed.
            TransientError: a kind is not served (yet), and nothing was executed; or operations failed, all of which
                the text names.
        """
        bound = [
            await self._resolve(place, operation, bounds)
            for place, operation in enumerate(parse_operations(operations, bounds), start=1)
        ]
        failures: list[tuple[str, WindlassError]] = []
        for place, operation in enumerate(bound, start=1):
            try:
                await self._execute(operation)
            except WindlassError as error:
                failures.append((f"operation {place} ({operation.target}): {error}", error))
        if failures:
            raise TransientError(
                failures[0][1].reason,
                f"{len(failures)} of {len(bound)} object operations failed: {'; '.join(text for text, _ in failures)}",
                hint="the hook is run again as a whole; the other operations stay executed",
            )

    async def _resolve(self, place: int, operation: Operation, bounds: Bounds) -> Operation:
        target = operation.target
        info = await self._kube.resource(target.api_version, target.kind)
        where = f"operation {place}: {target.kind}{f' of {target.api_version}' if target.api_version else ''}"
        if info is None:
            raise TransientError(
                Reason.API_REJECTED,
                f"{where}: the cluster does not serve this kind; no operation was executed",
                hint="install its CustomResourceDefinition, or correct apiVersion and kind in the hook",
            )
        if bounds.namespace and not info.namespaced:
            raise PermanentError(
                Reason.FORBIDDEN,
                f"{where}: a cluster-wide kind; no operation was executed",
                hint="an application's hooks may only touch kinds that live in its namespace",
                actor=Actor.AUTHOR,
            )
        if info.namespaced is not bool(target.namespace):
            raise PermanentError(
                Reason.API_REJECTED,
                f"{where}: namespace: {'missing' if info.namespaced else 'the kind is cluster-wide'}; "
                "no operation was executed",
                hint="name the namespace of what lives in one, and of nothing else",
                actor=Actor.AUTHOR,
            )
        if isinstance(operation, FilterObject):
            await self._jq.check(operation.program)
        return resolved(operation, api_version=info.api_version, kind=info.kind)

    async def _execute(self, operation: Operation) -> None:
        match operation:
            case CreateObject():
                await self._create(operation)
            case DeleteObject():
                await self._delete(operation)
            case PatchObject():
                await self._patch(operation)
            case FilterObject():
                await self._filter(operation)

    async def _create(self, operation: CreateObject) -> None:
        try:
            await self._kube.create(dict(operation.object))
        except TransientError as error:
            if error.reason is not Reason.API_CONFLICT or operation.if_exists is IfExists.FAIL:
                raise
            if operation.if_exists is IfExists.REPLACE:
                await self._replace(operation)

    async def _replace(self, operation: CreateObject) -> None:
        """Put the object in the place of the present one, which may change or vanish while we look."""
        for attempt in range(1, _REPLACE_ATTEMPTS + 1):
            try:
                present = await self._kube.get(_ref(operation))
                if present is None:
                    await self._kube.create(dict(operation.object))
                else:
                    await self._kube.replace(_with_version_of(operation.object, present))
            except TransientError as error:
                if error.reason is not Reason.API_CONFLICT or attempt == _REPLACE_ATTEMPTS:
                    raise
            else:
                return

    async def _patch(self, operation: PatchObject) -> None:
        ref = _ref(operation)
        patched = await self._kube.patch(ref, operation.patch, kind=operation.type, subresource=operation.subresource)
        if patched is None and not operation.ignore_missing:
            raise TransientError(
                Reason.API_REJECTED, f"{ref} does not exist", hint="create it first, or set ignoreMissingObject"
            )

    async def _filter(self, operation: FilterObject) -> None:
        """Put what the program makes of the object in its place, unless that is the same; others may write too."""
        ref = _ref(operation)
        for attempt in range(1, _REPLACE_ATTEMPTS + 1):
            present = await self._kube.get(ref)
            if present is None:
                if operation.ignore_missing:
                    return
                raise TransientError(
                    Reason.API_REJECTED, f"{ref} does not exist", hint="create it first, or set ignoreMissingObject"
                )
            results = await self._jq.run(operation.program, present)
            if len(results) != 1 or not is_object(results[0]):
                raise PermanentError(
                    Reason.FILTER_FAILED,
                    f"jqFilter gives {len(results)} results or no object, expected the whole object",
                    hint="write an update such as `.data.a = 1`",
                    actor=Actor.AUTHOR,
                )
            wanted = unrounded(present, results[0])
            if wanted == present:
                return
            try:
                await self._kube.replace(wanted, subresource=operation.subresource)
            except TransientError as error:
                if error.reason is not Reason.API_CONFLICT or attempt == _REPLACE_ATTEMPTS:
                    raise
            else:
                return

    async def _delete(self, operation: DeleteObject) -> None:
        ref = _ref(operation)
        if operation.propagation != "Foreground":
            await self._kube.delete(ref, propagation=operation.propagation)
            return
        present = await self._kube.get(ref)
        if present is None:
            return
        uid = str(present["metadata"].get("uid", ""))
        await self._kube.delete(ref, propagation="Foreground", uid=uid)
        try:
            async with asyncio.timeout(self._delete_timeout):
                await self._wait_gone(ref, uid)
        except TimeoutError:
            raise TransientError(
                Reason.UNINSTALL_FAILED,
                f"{ref} is still there {self._delete_timeout:g} s after its deletion",
                hint="see its metadata.finalizers and the objects it owns; DeleteInBackground does not wait",
            ) from None

    async def _wait_gone(self, ref: ObjectRef, uid: str) -> None:
        """Return once the object with ``uid`` is gone; somebody may have made another of its name."""
        looks = 0
        while (present := await self._kube.get(ref)) is not None and present["metadata"].get("uid") == uid:
            await asyncio.sleep(_POLLS[min(looks, len(_POLLS) - 1)])
            looks += 1


def _ref(operation: Operation) -> ObjectRef:
    target = operation.target
    return ObjectRef(api_version=target.api_version, kind=target.kind, namespace=target.namespace, name=target.name)


def _with_version_of(given: Mapping[str, Any], present: Object) -> Object:
    version = present["metadata"]["resourceVersion"]
    return {**given, "metadata": {**given["metadata"], "resourceVersion": version}}
