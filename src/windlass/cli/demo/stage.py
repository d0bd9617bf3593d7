"""Where the demo plays: what it shows comes from watches of objects and from histories, never from the story."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from windlass.cli.cluster import Cluster, condition
from windlass.cli.demo.history import END, begun, facts, is_running
from windlass.cli.demo.model import Act, Check, Fact, Mark, Show, Subject
from windlass.domain.errors import PermanentError, Reason, WindlassError
from windlass.domain.ids import package_workflow_id, release_name

if TYPE_CHECKING:
    from temporalio.client import Client

    from windlass.cli.demo.worker import Worker
    from windlass.contracts.objects import PackageObject

FIELD_MANAGER: Final = "windlass-demo"
CHECK_SECONDS: Final = 45.0
"""Deadline of one check: generous, since machines that run a demo also do other things."""

_LOOK_AGAIN: Final = 0.2  # seconds between looks at objects that nobody here watches


class Finding(NamedTuple):
    """What a look at the cluster found: whether it is as it should be, and what there is."""

    good: bool
    seen: str


type Look = Callable[[], Awaitable[Finding]]


class Stage:
    """What is known of the demo's packages, and the act that runs.

    Args:
        place: cluster, installation and namespace of the demo.
        client: reads histories.
        worker: the demo's worker; a check fails at once if it ends by itself.
        show: gets every change.
    """

    def __init__(self, place: Cluster, client: Client, worker: Worker, show: Show) -> None:
        self.place = place
        self.worker = worker
        self.applications: dict[str, PackageObject] = {}
        self.revisions: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self.facts: defaultdict[str, list[Fact]] = defaultdict(list)
        self._client = client
        self._show = show
        self.runs: dict[str, str] = {}
        self._act: Act | None = None
        self._changed = asyncio.Event()

    # -- what is seen --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watching(self, names: list[str]) -> AsyncGenerator[None]:
        """Follow the packages of these names meanwhile; lives that began earlier belong to an earlier demo."""
        after = time.time()
        tasks = [asyncio.create_task(self._watch_objects()), asyncio.create_task(self._watch_releases(names))]
        tasks += [asyncio.create_task(self._follow(name, after)) for name in names]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_objects(self) -> None:
        from windlass.cli.packages.live import packages

        async with aclosing(packages(self.place, self.place.namespace)) as stream:
            async for found in stream:
                now = {one.metadata.name: one for one in found}
                known, self.applications = self.applications, now
                for name in sorted(known.keys() | now.keys()):
                    self._head(name, known.get(name))
                self._changed.set()

    def _head(self, name: str, before: PackageObject | None) -> None:
        head = _headline(self.applications.get(name))
        if self._act is None or head == _headline(before):
            return
        subject = self._subject(self._act, name)
        subject.head, subject.ready = head
        self._show(self._act, subject)

    def _subject(self, act: Act, name: str) -> Subject:
        """Return the package's place in the act; it begins with what is known of the package."""
        if name not in act.subjects:
            head, ready = _headline(self.applications.get(name))
            act.subjects[name] = Subject(name=name, head=head, ready=ready, release=self._newest(name))
        return act.subjects[name]

    def _newest(self, name: str) -> str:
        known = self.revisions[name]
        newest = max(known, default=0)
        return f"revision {newest} {known[newest]}" if newest else ""

    async def _watch_releases(self, names: list[str]) -> None:
        """Watch the Secrets in which Helm keeps its revisions."""
        from windlass.adapters.kube.following.reflector import Listed, list_and_watch

        by_release = {release_name(self.place.key(name)): name for name in names}
        stream = list_and_watch(
            self.place.kube,
            "v1",
            "Secret",
            namespace=self.place.namespace,
            label_selector="owner=helm",
            metadata_only=True,
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed):
                    self.revisions.clear()
                    items, gone = event.items, False
                elif event.type == "BOOKMARK":
                    continue
                else:
                    items, gone = [event.object], event.type == "DELETED"
                for item in items:
                    labels: dict[str, str] = item["metadata"].get("labels") or {}
                    name = by_release.get(labels.get("name", ""))
                    if name is not None:
                        self._revision(name, int(labels["version"]), "" if gone else labels["status"])

    def _revision(self, name: str, number: int, status: str) -> None:
        known = self.revisions[name]
        if status:
            known[number] = status
        else:
            known.pop(number, None)
        self._changed.set()
        if self._act is None:
            return
        subject = self._subject(self._act, name)
        if subject.release != (newest := self._newest(name)):
            subject.release = newest
            self._show(self._act, subject)

    async def _follow(self, name: str, after: float) -> None:
        workflow = package_workflow_id(self.place.key(name))
        self.runs[name] = await begun(self._client, workflow, after)
        async for fact in facts(self._client, workflow, self.runs[name]):
            self.facts[name].append(fact)
            self._changed.set()
            act = self._act
            if act is not None and fact.at >= act.since:  # what is told late belongs to an act that is over
                self._show(act, (name, self._subject(act, name).take(fact)))

    def ended(self, name: str) -> bool:
        """Say whether the life of this package was seen to end."""
        return any(fact.step == END for fact in self.facts[name])

    async def alive(self, name: str) -> bool:
        """Ask Temporal whether a lifecycle of this package runs."""
        return await is_running(self._client, package_workflow_id(self.place.key(name)))

    async def seen[T](self, look: Callable[[], T | None], seconds: float, what: str) -> T:
        """Return the first thing that ``look`` finds in what is watched, looking again at every change.

        Raises:
            PermanentError: INTERNAL, nothing in time.
        """
        try:
            async with asyncio.timeout(seconds):
                while (found := look()) is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise self._failed(f"{what} was not seen within {seconds:.0f} s") from None
        return found

    # -- what is done --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def act(self, title: str) -> AsyncGenerator[Act]:
        """Play one act."""
        self._act = Act(title=title, began=time.monotonic(), since=time.time())
        self._show(self._act, self._act)
        try:
            yield self._act
        finally:
            act, self._act = self._act, None
            act.ended = time.monotonic()
            self._show(act, act)

    def remark(self, text: str) -> None:
        """Say what the demo itself has just done."""
        if self._act is not None:
            self._act.entries.append(text)
        self._show(self._act, text)

    async def apply(self, document: dict[str, Any]) -> None:
        """Create or change an object, as a user would."""
        await self.place.kube.apply(document, field_manager=FIELD_MANAGER)

    async def check(self, text: str, look: Look, *, within: float = CHECK_SECONDS) -> None:
        """Look until what is found is good.

        Raises:
            PermanentError: INTERNAL, it is not in time; says what was seen last.
        """
        check = Check(text=text)
        if self._act is not None:
            self._act.entries.append(check)
        try:
            async with asyncio.timeout(within):
                while check.mark is Mark.RUNNING:
                    self.worker.check()
                    good = await self._look(check, look)
                    if good:
                        check.mark = Mark.DONE
                    else:
                        await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise self._failed(f"{text}: seen after {within:.0f} s: {check.seen or 'nothing'}") from None
        finally:
            if check.mark is Mark.RUNNING:
                check.mark = Mark.FAILED
            self._show(self._act, check)

    async def _look(self, check: Check, look: Look) -> bool:
        try:
            good, check.seen = await look()
        except WindlassError as error:  # a cluster that does not answer now may do so within the deadline
            good, check.seen = False, str(error)
        return good

    def _failed(self, text: str) -> PermanentError:
        return PermanentError(Reason.INTERNAL, f"the demo failed: {text}", hint=f"worker log: {self.worker.log}")


def _headline(application: PackageObject | None) -> tuple[str, str]:
    """Return an Application in a few words, and the status of its `Ready` condition ("True" also for one gone)."""
    if application is None:
        return "gone", "True"
    status = application.status
    if status is None:
        return "no status yet", "Unknown"
    ready, reason, _ = condition(application, "Ready")
    text = f"{status.version or '-'} {status.phase or 'Pending'}"
    if status.progress is not None and status.progress.remaining:
        done = status.progress.completed
        return f"{text}, {done} of {done + status.progress.remaining} objects ready", ready
    if status.failure is not None:
        return f"{text}, {status.failure.reason} (attempt {status.failure.attempt})", ready
    return f"{text}, {'ready' if ready == 'True' else reason or 'not ready'}", ready
