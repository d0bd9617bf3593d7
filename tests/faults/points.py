"""The points of a life at which a worker is killed: how each is brought about, and how one sees that it was hit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.subjects import Subject
from temporalio.client import WorkflowExecutionDescription

from support.faults import Hold, HoldingProxy
from support.installation import Installation, installed
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import (
    API_VERSION,
    INSTALLATION_LABEL,
    package_workflow_id,
    record_name,
    release_name,
)
from windlass.ports.kube import ObjectRef

REACHED_WITHIN = 60.0
"""Seconds until every package stands at its point; several seconds of work on a busy machine."""

WAVES = 3
"""In which packages are sent off to their points; see `Placed.wave`."""

RECOVERED_WITHIN = 60.0
"""Deadline, not a target, in seconds from the restart until everything is as desired, on a machine that is busy with
other things. How fast it is, bench/recovery.py measures."""

WAIT_SECONDS = 90.0
"""Seconds after which that is given up, so that a slow restart is told from one that never gets there."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point. ``{app}``, ``{record}``, ``{release}`` and ``{repository}`` stand for the package's own names.

    Attributes:
        name: of the test case, the package and its Application.
        at: request to the API server at which the worker is held; see `support.faults.Hold`.
        passing: requests that pass before.
        answered: hold the answer, not the request.
        after: line of the hooks' journal that has to be there before anything is held.
        hook: binding whose hook is held while it runs; ``config`` is the discovery.
        hooks: it has hooks, none of which is held.
        gated: held by nothing but a Deployment that does not become ready.
        lingering: held by nothing but an object that does not go away.
        activity: type of the remote activity that must be running; empty for the short local ones.
        status: status of the newest Helm revision at the point; empty if it does not matter.
        again: binding whose hook is begun once more, because it was killed with the worker.
        revisions: status of each Helm revision in the end.
    """

    name: str
    at: str = ""
    passing: tuple[str, ...] = ()
    answered: bool = False
    after: str = ""
    hook: str = ""
    hooks: bool = False
    gated: bool = False
    lingering: bool = False
    activity: str = ""
    status: str = ""
    again: str = ""
    revisions: tuple[str, ...] = ()


@dataclass
class Placed:
    """A package on its way to its point."""

    point: Point
    subject: Subject
    installation: Installation
    repository: str
    hold: Hold | None = None
    version: str = ""

    @property
    def wave(self) -> int:
        """When the package is sent off, of `WAVES`: the shorter it stays at its point, the later.

        A hook or Helm waits for minutes (0). A held request is given up after some seconds and sent again (1). What
        the API server has done already is not asked of it again: the package goes on (2).
        """
        point = self.point
        if point.answered:
            return 2
        waits = point.hook not in {"", "config"} or point.gated or point.lingering
        return 0 if waits or point.activity.startswith("helm.") else 1

    @property
    def names(self) -> dict[str, str]:
        """What the placeholders in a point's requests stand for."""
        key = self.installation.key(self.point.name)
        return {
            "app": f"/applications/{key.name}",
            "record": f"/secrets/{record_name(key)}",
            "release": release_name(key),
            "repository": f"/packagerepositories/{self.repository}",
        }

    def arm(self, proxy: HoldingProxy) -> None:
        """See to it that the package stops at its point."""
        point = self.point
        if point.at:
            after = point.after
            self.hold = proxy.hold(
                Hold(
                    at=point.at.format(**self.names),
                    passing=tuple(one.format(**self.names) for one in point.passing),
                    answered=point.answered,
                    when=lambda: not after or self.subject.wrote(after),
                )
            )
        if point.hook:
            self.subject.hold(point.hook)

    async def want(self, version: str, **spec: Any) -> None:
        """Ask for a version."""
        self.version = version
        await self.installation.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Application",
                "metadata": {
                    "name": self.point.name,
                    "namespace": self.installation.namespace,
                    "labels": {INSTALLATION_LABEL: self.installation.name},
                },
                "spec": {
                    "package": {"repository": self.repository, "name": self.point.name, "version": version},
                    **spec,
                },
            }
        )

    def stands(self) -> str:
        """Return an empty text when the package is being held now, else what is missing."""
        if self.hold is not None and not self.hold.holding:
            return f"{self.point.name}: no request is held"
        if self.point.hook and not self.subject.wrote(f"{self.point.hook} started {self.version}"):
            return f"{self.point.name}: its hook has not begun"
        return ""

    async def reached(self) -> str:
        """Return an empty text when Kubernetes and Temporal show the package at its point, else what is missing."""
        point = self.point
        newest = ["", *await self.revisions()][-1]
        if point.status and newest != point.status:
            return f"{point.name}: newest revision is {newest or 'absent'}, not {point.status}"
        if point.gated and not await self.gated_pods():
            return f"{point.name}: it has no pod yet"
        if point.lingering and not await self._lingers():
            return f"{point.name}: its object is not being deleted yet"
        running = await self.running()
        if running != point.activity:
            return f"{point.name}: running is {running or 'no activity'}, not {point.activity or 'none'}"
        return ""

    def expected_journal(self, *bindings: str) -> list[str]:
        """Return what the hooks should have written: each once, and what was killed with the worker begun twice."""
        if not self.subject.has_hooks:
            return []
        lines: list[str] = []
        for binding in bindings:
            lines += [f"{binding} started {self.version}"] * (2 if self.point.again == binding else 1)
            lines += [f"{binding} finished {self.version}"]
        return lines

    async def revisions(self) -> tuple[str, ...]:
        """Return the status of each stored Helm revision, oldest first."""
        found = await self.installation.release(self.point.name)
        return tuple(found[number] for number in sorted(found))

    async def running(self) -> str:
        """Return the type of the remote activity that runs for the package now, empty if there is none."""
        handle = self.installation.client.get_workflow_handle(
            package_workflow_id(self.installation.key(self.point.name))
        )
        found: WorkflowExecutionDescription = await handle.describe()
        return next((one.activity_type.name for one in found.raw_description.pending_activities), "")

    async def go_on(self) -> None:
        """Take away everything but the proxy's hold that keeps the package at its point."""
        self.subject.go_on()
        await self.open_gates()
        if self.point.lingering:
            ref = self.installation.ref("ConfigMap", self.names["release"])
            await self.installation.kube.patch(ref, {"metadata": {"finalizers": None}}, kind="merge")

    async def open_gates(self) -> bool:
        """Let the pods of the package start; say whether there was one."""
        pods = await self.gated_pods()
        for pod in pods:
            ref = self.installation.ref("Pod", pod["metadata"]["name"])
            await self.installation.kube.patch(ref, {"spec": {"schedulingGates": None}}, kind="merge")
        return bool(pods)

    async def gated_pods(self) -> list[dict[str, Any]]:
        """Return the pods of the wanted version that wait for their gate."""
        found = await self.installation.kube.list(
            "v1",
            "Pod",
            namespace=self.installation.namespace,
            label_selector=f"app={self.names['release']},version={self.version}",
        )
        return [pod for pod in found.items if pod["spec"].get("schedulingGates")]

    async def _lingers(self) -> bool:
        obj = await self.installation.get("ConfigMap", self.names["release"])
        return obj is not None and bool(obj["metadata"].get("deletionTimestamp"))


@dataclass
class Field:
    """All packages of one scenario in one installation, and the kill that hits them all.

    ``seconds`` is how long after the restart the last package was as desired, ``exit_code`` that of a stopped worker.
    """

    installation: Installation
    proxy: HoldingProxy
    folder: Path
    placed: dict[str, Placed] = field(default_factory=dict[str, Placed])
    seconds: float = 0.0
    exit_code: int | None = None

    async def place(self, points: Sequence[Point], *versions: str) -> None:
        """Write a package, with a repository of its own, for every point."""
        for point in points:
            # A repository of its own tells whose content a request asks for.
            repository = f"repo-{self.installation.name}-{point.name}"
            folder = self.folder / point.name
            subject = Subject(
                point.name, folder / "packages", folder, has_hooks=bool(point.hooks or point.hook or point.after)
            )
            subject.write(*versions, gated=point.gated, finalizer=point.lingering)
            await self.installation.repository(subject.repository, repository)
            self.placed[point.name] = Placed(point, subject, self.installation, repository)

    def start(self) -> None:
        """Start the worker, behind the proxy."""
        self.installation.start(**self.proxy.environ(self.installation.folder))

    async def reach(self, action: Callable[[Placed], Awaitable[None]]) -> None:
        """Give every package its order, and return when all stand at their points at one moment.

        Nothing else runs between that moment and the return, so that a kill right after it hits them there.
        """
        for wave in range(WAVES):
            sent = [one for one in self.placed.values() if one.wave == wave]
            for one in sent:
                one.arm(self.proxy)
            for one in sent:
                await action(one)
            await self._all_reached(wave)

    async def _all_reached(self, wave: int) -> None:
        here = [one for one in self.placed.values() if one.wave <= wave]

        def missing() -> list[str]:
            return [text for one in here if (text := one.stands())]

        async def everybody() -> bool:
            # The cheap question first: asking the servers takes time from those who are still on their way.
            found = missing() or [text for text in await asyncio.gather(*(one.reached() for one in here)) if text]
            if found := found or missing():
                raise AssertionError("; ".join(found))
            return True

        await eventually(everybody, REACHED_WITHIN, what=f"every package of wave {wave} stands at its point")

    async def install(self, version: str) -> None:
        """Bring every package to a first version, undisturbed, and forget what its hooks wrote."""
        for one in self.placed.values():
            await one.want(version)
        for one in self.placed.values():
            if one.point.gated:
                await eventually(one.open_gates, REACHED_WITHIN, what="a pod to open the gate of")
            await self.installation.ready(one.point.name, version, within=REACHED_WITHIN)
            one.subject.clear()

    async def kill_and_restart(self, finished: Callable[[Placed], Awaitable[object]]) -> None:
        """Kill the worker at once, take away what held it, start it again, and wait until all have ``finished``."""
        self.installation.kill()
        await self._restart(finished)

    async def stop_and_restart(self, finished: Callable[[Placed], Awaitable[object]]) -> None:
        """As `kill_and_restart` with SIGTERM; what holds the worker goes on doing so until it has ended."""
        # In a thread: the proxy that holds the worker's requests lives on this one.
        self.exit_code = await asyncio.to_thread(self.installation.stop)
        await self._restart(finished)

    async def let_go(self) -> None:
        """Take away what holds the worker and its packages."""
        self.proxy.release()
        for one in self.placed.values():
            await one.go_on()

    async def _restart(self, finished: Callable[[Placed], Awaitable[object]]) -> None:
        await self.let_go()
        began = time.monotonic()
        self.start()
        await asyncio.gather(*(finished(one) for one in self.placed.values()))
        self.seconds = time.monotonic() - began

    async def take_away(self) -> None:
        """Delete the repositories."""
        for one in self.placed.values():
            await self.installation.kube.delete(
                ObjectRef(api_version=API_VERSION, kind="PackageRepository", name=one.repository)
            )


@asynccontextmanager
async def laid_out(stack: Stack, folder: Path) -> AsyncGenerator[Field]:
    """Make an installation behind a proxy; take everything away at the end."""
    async with installed(stack, folder / "installation") as installation, HoldingProxy(stack).serving() as proxy:
        made = Field(installation, proxy, folder)
        try:
            yield made
        finally:
            await made.take_away()
