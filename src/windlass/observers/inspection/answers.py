"""One answer for each view of a package: JSON without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from windlass.activities.inputs import object_ref
from windlass.contracts.inspection import Question, View
from windlass.contracts.objects import PackageObject, parse_package
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import PackageKey
from windlass.observers.inspection.differences import differences
from windlass.observers.inspection.inventory import take_inventory, told
from windlass.observers.inspection.masking import masked
from windlass.observers.inspection.rendering import rendered
from windlass.observers.inspection.story import history_document, package_history
from windlass.observers.inspection.surroundings import Surroundings
from windlass.observers.inspection.values import release_values
from windlass.runtime.dumps import package_dump, queue_dump

RENDERINGS: Final = 2
"""Views that render a chart, at a time: each is a process of Helm's with some 50 MB."""


class Answers:
    """Reads what is asked for; whoever calls has made sure that it may be told.

    Args:
        around: where to read.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._rendering = asyncio.Semaphore(RENDERINGS)
        self._views: Mapping[View, Callable[[PackageObject, Question], Awaitable[Any]]] = {
            View.QUEUES: self._queues,
            View.DUMP: self._dump,
            View.HISTORY: self._history,
            View.VALUES: self._values,
            View.RENDER: self._render,
            View.DIFF: self._diff,
            View.TREE: self._tree,
        }

    async def __call__(self, key: PackageKey, view: View, question: Question) -> Any:
        """Return one view of a package.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, this installation has no such package; or as the view says.
            TransientError: something that is needed does not answer.
        """
        found = await self._around.kube.get(object_ref(key))
        package = parse_package(key.kind, found) if found is not None else None
        if package is None or package.installation != self._around.installation:
            where = f" in namespace {key.namespace}" if key.namespace else ""
            raise PermanentError(
                Reason.PACKAGE_NOT_FOUND,
                f"installation {self._around.installation} has no {key.kind.value} {key.name}{where}",
                hint="see `windlass get -A`",
                actor=Actor.USER,
            )
        return await self._views[view](package, question)

    def _key(self, package: PackageObject) -> PackageKey:
        return package.key(self._around.installation)

    async def _queues(self, package: PackageObject, _: Question) -> Any:
        now = datetime.now(UTC)
        queues = (await self._around.lifecycles.queues(self._key(package))).queues
        return {name: queue_dump(steps, now) for name, steps in queues.items()}

    async def _dump(self, package: PackageObject, _: Question) -> Any:
        return package_dump(await self._around.lifecycles.dump(self._key(package)), package)

    async def _history(self, package: PackageObject, question: Question) -> Any:
        return history_document(await package_history(self._around, package, question.oldest))

    async def _values(self, package: PackageObject, _: Question) -> Any:
        async with self._around.acting(package) as kube:
            return await release_values(kube, self._around.release(package), package)

    async def _render(self, package: PackageObject, question: Question) -> Any:
        inputs = await self._around.inputs(package)
        async with self._rendering:
            found = await rendered(self._around, package, inputs, version=question.version, settings=question.settings)
        concealed = inputs.concealed()
        objects = [*found.objects.values(), *found.hooks.values()]
        return await asyncio.to_thread(lambda: [masked(one, concealed, found.secrets) for one in objects])

    async def _diff(self, package: PackageObject, question: Question) -> Any:
        inputs = await self._around.inputs(package)
        async with self._rendering:
            return await differences(self._around, package, inputs, against_release=question.against == "release")

    async def _tree(self, package: PackageObject, _: Question) -> Any:
        async with self._around.acting(package) as kube:
            return told(await take_inventory(kube, self._around.release(package), package))
