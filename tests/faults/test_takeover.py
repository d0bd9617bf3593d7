"""Several worker processes share the shards: what one of them does is done by the others when it is lost, and once."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults.points import WAIT_SECONDS
from faults.subjects import Subject

from support.faults import Hold, HoldingProxy
from support.installation import Installation, condition
from support.running import shown
from support.waiting import eventually
from windlass.domain.ids import member_of, release_name, shard_of, shards_name
from windlass.ports.kube import ObjectRef

SHARDS = 8

type Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(installation: Installation) -> Iterator[Start]:
    """Starts processes by name; they are killed in the end."""
    processes: list[subprocess.Popen[bytes]] = []

    def started(name: str, role: str = "worker", **environ: str) -> subprocess.Popen[bytes]:
        process = installation.start(role, data=name, **environ)
        installation.process = None  # the fixture of the installation knows one process only
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.kill()
        process.wait()


async def owners(installation: Installation) -> dict[int, str]:
    """Return who serves each shard, by the name of its member."""
    ref = ObjectRef(
        api_version="v1", kind="ConfigMap", namespace="windlass-system", name=shards_name(installation.name)
    )
    found = await installation.kube.get(ref)
    data = (found or {}).get("data") or {}
    return {shard: member_of(data[f"shard-{shard}"]) for shard in range(SHARDS) if data.get(f"shard-{shard}")}


async def shared(installation: Installation, *shares: int) -> dict[int, str]:
    """Wait until the shards are shared like that."""

    async def found() -> dict[int, str] | None:
        now = await owners(installation)
        return now if sorted(Counter(now.values()).values()) == sorted(shares) else None

    result = await eventually(found, WAIT_SECONDS, what=f"shards are shared {shares}")
    assert result is not None
    return result


class Crowd:
    """Packages whose hooks keep a journal, by the process that serves them."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        self.installation = installation
        self.folder = folder
        self.subjects: dict[str, Subject] = {}
        self.member: dict[str, str] = {}

    async def place(self, table: dict[int, str]) -> None:
        """Write one package for every process in ``table``, each with the hook `beforeHelm` held."""
        wanted = set(table.values())
        for name in (f"app-{number}" for number in itertools.count()):
            member = table[shard_of(self.installation.key(name), SHARDS)]
            if member not in wanted:
                continue
            subject = Subject(name, self.folder / "packages", self.folder / name)
            subject.write("1.0.0")
            subject.hold("beforeHelm")
            self.subjects[name], self.member[name] = subject, member
            wanted.discard(member)
            if not wanted:
                return

    async def install(self) -> None:
        """Ask for all of them and wait until each stands in its hook."""
        for name in self.subjects:
            await self.installation.application(name, name, "1.0.0")
        for subject in self.subjects.values():
            await eventually(lambda one=subject: one.wrote("beforeHelm started 1.0.0"), WAIT_SECONDS)

    def of(self, member: str) -> str:
        """Return the package of a process."""
        return next(name for name, other in self.member.items() if other == member)


async def test_a_killed_process_is_replaced_by_the_others(
    installation: Installation, start: Start, tmp_path: Path
) -> None:
    processes = {name: start(name) for name in ("one", "two", "three")}
    start("watching", "watcher")
    table = await shared(installation, 3, 3, 2)
    crowd = Crowd(installation, tmp_path)
    await crowd.place(table)
    await crowd.install()

    victim = min(table.values())
    lost = crowd.of(victim)
    [process] = [one for name, one in processes.items() if _member(installation, name) == victim]
    process.kill()
    process.wait()
    # Its hook died with it; only who begins it anew can finish it.
    for subject in crowd.subjects.values():
        subject.go_on()
    for name in crowd.subjects:
        await installation.ready(name, "1.0.0", within=WAIT_SECONDS)

    after = await shared(installation, 4, 4)
    assert victim not in after.values()
    kept = {shard for shard, owner in table.items() if owner != victim}
    assert {shard: after[shard] for shard in kept} == {shard: table[shard] for shard in kept}
    for name, subject in crowd.subjects.items():
        begun = 2 if name == lost else 1
        assert subject.journal().count("beforeHelm started 1.0.0") == begun, name
        assert subject.journal().count("beforeHelm finished 1.0.0") == 1, name
        assert not [line for line in subject.journal() if "meets" in line], name
        assert await installation.release(name) == {1: "deployed"}


async def test_a_step_that_runs_is_not_cut_off_when_its_shard_moves(
    installation: Installation, start: Start, tmp_path: Path
) -> None:
    first = start("one", "all")
    table = await shared(installation, SHARDS)
    crowd = Crowd(installation, tmp_path)
    # Each shard has a package of its own: some of the shards that move have a hook running.
    names = {shard_of(installation.key(name), SHARDS): name for name in (f"app-{number}" for number in range(60))}
    for name in names.values():
        crowd.subjects[name] = Subject(name, tmp_path / "packages", tmp_path / name)
        crowd.subjects[name].write("1.0.0")
        crowd.subjects[name].hold("beforeHelm")
        crowd.member[name] = table[0]
    await crowd.install()
    start("two")
    await eventually(lambda: installation.log.read_text().count('"shard moves"') >= SHARDS // 2, WAIT_SECONDS)
    for subject in crowd.subjects.values():
        subject.go_on()
    for name in crowd.subjects:
        await installation.ready(name, "1.0.0", within=WAIT_SECONDS)
    after = await shared(installation, 4, 4)
    assert _member(installation, "one") in after.values()
    for name, subject in crowd.subjects.items():
        expected = [f"{hook} {what} 1.0.0" for hook in ("onStartup", "beforeHelm", "afterHelm") for what in _BOTH]
        assert subject.journal() == expected, name

    # Who leaves in order is replaced at once, without waiting for its Lease to run out.
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=WAIT_SECONDS) == 0
    left = await owners(installation)
    assert _member(installation, "one") not in left.values()
    await shared(installation, SHARDS)


_BOTH = ("started", "finished")


async def test_who_cannot_renew_has_stopped_before_another_goes_on(
    installation: Installation, start: Start, tmp_path: Path
) -> None:
    async with HoldingProxy(installation.stack).serving() as proxy:
        start("cut-off", **proxy.environ(installation.folder))
        await shared(installation, SHARDS)
        start("two")
        start("watching", "watcher")
        crowd = Crowd(installation, tmp_path)
        await crowd.place(await shared(installation, 4, 4))
        await crowd.install()
        victim = _member(installation, "cut-off")
        name = crowd.of(victim)
        proxy.hold(Hold(at=" "))
        # The hook of the process that is cut off waits, and needs nothing from the API server to do so.
        subject = crowd.subjects[name]
        await eventually(lambda: subject.journal().count("beforeHelm started 1.0.0") == 2, WAIT_SECONDS)
        assert set((await owners(installation)).values()) == {_member(installation, "two")}
        for one in crowd.subjects.values():
            one.go_on()
        for one in crowd.subjects:
            await installation.ready(one, "1.0.0", within=WAIT_SECONDS)
        assert not [line for line in subject.journal() if "meets" in line], "two runs of one package's hooks met"
        assert subject.journal().count("beforeHelm finished 1.0.0") == 1

        proxy.release()  # it comes back, and is given its share again
        await shared(installation, 4, 4)


async def test_who_is_frozen_in_mid_upgrade_is_gone_before_another_goes_on(
    installation: Installation, start: Start, tmp_path: Path
) -> None:
    async with HoldingProxy(installation.stack).serving() as proxy:
        frozen = start("frozen", **proxy.environ(installation.folder))
        await shared(installation, SHARDS)
        start("two")
        start("watching", "watcher")
        crowd = Crowd(installation, tmp_path)
        await crowd.place(await shared(installation, 4, 4))
        name = crowd.of(_member(installation, "frozen"))
        subject = crowd.subjects[name]
        subject.write("2.0.0", "3.0.0")
        subject.go_on()
        await installation.application(name, name, "1.0.0")
        await installation.ready(name, "1.0.0", within=WAIT_SECONDS)

        # Frozen is the worker, not its Helm child, which goes on as soon as its request is let go.
        hold = proxy.hold(Hold(at=f"(PUT|PATCH) .*/configmaps/{release_name(installation.key(name))}$"))
        await installation.application(name, name, "2.0.0")
        await eventually(lambda: hold.holding, WAIT_SECONDS, what="Helm is in the middle of the upgrade")
        frozen.send_signal(signal.SIGSTOP)
        await installation.application(name, name, "3.0.0")
        await installation.ready(name, "3.0.0", within=WAIT_SECONDS)
        proxy.release()
        frozen.send_signal(signal.SIGCONT)

        assert await asyncio.to_thread(frozen.wait, WAIT_SECONDS) == -signal.SIGKILL, "by its watchdog"
        assert "was frozen or hung" in installation.log.read_text()
        await shared(installation, SHARDS)
        obj = await installation.ready(name, "3.0.0")
        assert await installation.release(name) == {1: "superseded", 2: "failed", 3: "deployed"}
        assert (await shown(installation, name))["version"] == "3.0.0", "nothing of the old upgrade came later"
        assert condition(obj, "InSync")["status"] != "False"
        assert not [line for line in subject.journal() if "meets" in line]


def _member(installation: Installation, name: str) -> str:
    """Return the member's name of the process that was started as ``name``, from its log."""
    return next(
        entry["member"]
        for line in installation.log.read_text().splitlines()
        if '"worker started"' in line and (entry := json.loads(line))["data_dir"].endswith(f"/{name}/worker")
    )
