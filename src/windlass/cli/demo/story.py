"""The story the demo tells; every act ends with checks against the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from windlass.cli.demo import checks as look
from windlass.cli.demo.history import END
from windlass.cli.demo.model import Fact, Mark
from windlass.cli.demo.stage import Finding, Stage
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL, SYSTEM_NAMESPACE, lease_name
from windlass.ports.kube import ObjectRef

INSTALLATION: Final = "windlass-demo"
"""An installation of its own: no other worker on the same stack may go on with what the demo interrupts."""

NAMESPACE: Final = "demo"
REPOSITORY: Final = "windlass-demo"
PACKAGES: Final = ("cache", "web", "vault")
WEB: Final = {"title": "The shop", "replicas": 3, "cache": {"host": "cache"}}
STILL_SECONDS: Final = 2.5
"""How long the demo watches that nothing moves without a worker."""


def application(name: str, package: str, version: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return an Application of the demo."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {INSTALLATION_LABEL: INSTALLATION}},
        "spec": {"package": {"repository": REPOSITORY, "name": package, "version": version}, "settings": settings},
    }


async def prepare(stage: Stage, packages: Path) -> None:
    """Make the namespace, declare where the packages lie, start the worker, and clear what an earlier demo left."""
    async with stage.act("A worker, and a repository of packages"):
        await stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await stage.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "PackageRepository",
                "metadata": {"name": REPOSITORY},
                "spec": {"kind": "file", "file": {"path": str(packages)}},
            }
        )
        before = await _renewed(stage)
        stage.remark(f"worker started, pid {stage.worker.start()}")

        async def serving() -> Finding:
            now = await _renewed(stage)
            return Finding(good=bool(now) and now != before, seen=f"last renewed {now or 'never'}")

        await stage.check("its watcher holds the Lease of this installation", serving)
        leftovers = [one.metadata.name for one in await stage.place.packages()]
        if leftovers:
            stage.remark(f"removing what an earlier demo left: {', '.join(leftovers)}")
            await _delete(stage, leftovers)
        await stage.check("the namespace is empty", look.nothing_left(stage))

        async def no_lives() -> Finding:
            alive = [name for name in PACKAGES if await stage.alive(name)]
            return Finding(good=not alive, seen=f"still running: {', '.join(alive)}")

        # An object that comes back while its removal ends is taken over by the same run: this story wants new ones.
        await stage.check("no lifecycle of an earlier demo runs", no_lives)


async def play(stage: Stage) -> None:
    """Tell the story."""
    async with stage.watching(list(PACKAGES)):
        await _install(stage)
        await _reconfigure(stage)
        await _refuse(stage)
        await _upgrade(stage)
        await _uninstall(stage)


async def _install(stage: Stage) -> None:
    async with stage.act("Install a cache, a web app that uses it, and a vault with hooks"):
        await stage.apply(application("cache", "cache", "1.0.0", {"memoryMegabytes": 128}))
        await stage.apply(application("web", "webapp", "1.0.0", WEB))
        await stage.apply(application("vault", "vault", "1.0.0", {"sealAfterMinutes": 10}))
        for name in PACKAGES:
            await stage.check(f"{name} is ready in version 1.0.0", look.ready(stage, name, "1.0.0"))
        cache = look.workload(stage, "StatefulSet", "cache", replicas=1, version="1.0.0")
        await stage.check("StatefulSet cache: 1 pod of version 1.0.0 ready", cache)
        await _web_runs(stage, replicas=3, version="1.0.0")
        told = look.environment(stage, "web", "CACHE_ADDRESS", "cache:6379")
        await stage.check("its pods are told CACHE_ADDRESS=cache:6379", told)
        mounted = look.mounts_secret(stage, "vault", "vault-vault-key")
        await stage.check("a hook made Secret vault-vault-key, and its value made the chart mount it", mounted)
        address = look.data(stage, "vault-vault-address", "address", "http://vault.demo.svc:8200")
        await stage.check("a hook wrote the address down once the release was ready", address)
        for name in PACKAGES:
            await stage.check(f"Helm: {name} has revision 1, deployed", look.revision(stage, name, 1))


async def _reconfigure(stage: Stage) -> None:
    async with stage.act("Reconfigure the web app: five replicas and another title"):
        downloads = _count(stage, "web", "Download")
        await stage.apply(application("web", "webapp", "1.0.0", {**WEB, "replicas": 5, "title": "The shop is open"}))
        await _web_runs(stage, replicas=5, version="1.0.0")
        page = look.data(stage, "web", "index.html", "The shop is open")
        await stage.check("ConfigMap web shows the new title", page)
        await stage.check("Helm: web has revision 2, deployed", look.revision(stage, "web", 2))

        async def no_download() -> Finding:
            now = _count(stage, "web", "Download")
            return Finding(good=now == downloads, seen=f"{now} downloads in its history")

        await stage.check("nothing was downloaded again", no_download)


async def _refuse(stage: Stage) -> None:
    async with stage.act("A setting the schema does not allow: 50 replicas"):
        await stage.apply(application("web", "webapp", "1.0.0", {**WEB, "replicas": 50, "title": "The shop is open"}))
        await stage.check("it is refused, naming settings.replicas", look.refused(stage, "web", "settings.replicas"))
        status = stage.applications["web"].status
        if status is not None and status.failure is not None:
            stage.remark(status.failure.message.splitlines()[-1].strip())
        await _web_runs(stage, replicas=5, version="1.0.0")
        await stage.check("Helm: the release is untouched, still revision 2", look.revision(stage, "web", 2))


async def _upgrade(stage: Stage) -> None:
    async with stage.act("Upgrade the web app to 1.1.0; kill -9 the worker in the middle"):
        first = len(stage.facts["web"])
        before = max(stage.revisions["web"], default=0)
        await stage.apply(application("web", "webapp", "1.1.0", {**WEB, "replicas": 8, "theme": "dark"}))
        number, status = await stage.seen(lambda: _newer(stage, before), 30, f"a revision after {before}")
        stage.remark(f"revision {number} was seen {status}: worker {stage.worker.kill()} killed with -9")

        async def half_way() -> Finding:
            begun = _of(stage.facts["web"][first:], "UpgradeRelease")
            stands = stage.applications["web"].status
            version = stands.version if stands else ""
            unfinished = bool(begun) and all(fact.mark is Mark.RUNNING for fact in begun)
            done = f"{'begun' if begun else 'not begun'}{'' if unfinished or not begun else ' and ended'}"
            return Finding(good=unfinished and version == "1.0.0", seen=f"UpgradeRelease {done}, status {version}")

        await stage.check("the upgrade stands half-way: begun in the history, not ended", half_way, within=10)
        await stage.check(f"without a worker nothing moves for {STILL_SECONDS} s", lambda: _still(stage), within=20)
        stage.remark(f"worker started again, pid {stage.worker.start()}")
        await stage.check("web is ready in version 1.1.0", look.ready(stage, "web", "1.1.0"))
        await _web_runs(stage, replicas=8, version="1.1.0")
        await stage.check("ConfigMap web has the dark theme", look.data(stage, "web", "theme.css", "#111"))
        newer = look.revision_after(stage, "web", before)
        await stage.check("Helm: a newer revision is deployed, and none is left pending", newer)

        async def gone_on() -> Finding:
            marks = [fact.mark for fact in _of(stage.facts["web"][first:], "UpgradeRelease")]
            good = Mark.LOST in marks and marks.count(Mark.DONE) == 1
            return Finding(good=good, seen=", ".join(marks))

        await stage.check("in the history: one attempt lost with its worker, then one that ended", gone_on)


async def _uninstall(stage: Stage) -> None:
    async with stage.act("Uninstall everything"):
        await _delete(stage, list(PACKAGES))
        await stage.check("packages, releases, and what hooks made are gone", look.nothing_left(stage))

        async def over() -> Finding:
            living = [name for name in PACKAGES if not stage.ended(name)]
            return Finding(good=not living, seen=f"not ended: {', '.join(living)}")

        await stage.check("all three workflows have completed", over)


async def _web_runs(stage: Stage, *, replicas: int, version: str) -> None:
    seen = look.workload(stage, "Deployment", "web", replicas=replicas, version=version)
    await stage.check(f"Deployment web: {replicas} pods of version {version} ready", seen)


async def _delete(stage: Stage, names: Sequence[str]) -> None:
    for name in names:
        await stage.place.kube.delete(stage.place.ref(name))


async def _still(stage: Stage) -> Finding:
    """Look twice, with a pause: what is green now, and what the object says."""
    before = _greens(stage)
    await asyncio.sleep(STILL_SECONDS)
    now = _greens(stage)
    return Finding(good=before == now, seen=f"{now[0]} steps done, object at {now[1]}")


def _greens(stage: Stage) -> tuple[int, str]:
    done = sum(fact.mark is Mark.DONE for known in stage.facts.values() for fact in known if fact.step != END)
    return done, stage.applications["web"].metadata.resource_version


async def _renewed(stage: Stage) -> str:
    ref = ObjectRef(
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        namespace=SYSTEM_NAMESPACE,
        name=lease_name(INSTALLATION, "watcher"),
    )
    lease = await stage.place.kube.get(ref)
    return str(lease["spec"].get("renewTime") or "") if lease else ""


def _newer(stage: Stage, before: int) -> tuple[int, str] | None:
    known = stage.revisions["web"]
    newest = max(known, default=0)
    return (newest, known[newest]) if newest > before else None


def _of(facts: Sequence[Fact], step: str) -> list[Fact]:
    return [fact for fact in facts if fact.step == step]


def _count(stage: Stage, name: str, step: str) -> int:
    return sum(fact.mark is Mark.DONE for fact in _of(stage.facts[name], step))
