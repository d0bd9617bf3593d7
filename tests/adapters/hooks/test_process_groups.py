"""Hooks that do not want to end: control returns soon, and nothing of the group is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from support.hook_package import HookPackage, Logged
from support.waiting import SOON, eventually
from windlass.adapters.hooks.launch import LocalRunner
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.runner import watch
from windlass.domain.errors import Reason, TransientError


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pids(folder: Path) -> list[int]:
    return [int(file.read_text()) for file in folder.glob("pid-*") if file.read_text().strip()]


def run_folders(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "runs").glob("worker-*/*"))


STUBBORN = """
trap '' TERM INT HUP
child() { trap '' TERM INT HUP; sh -c 'echo $$ > pid-'$1'; trap "" TERM; while :; do sleep 0.2; done'; }
child a & child b &
echo $$ > pid-main
while :; do sleep 0.2; done
"""


async def started(package: HookPackage, count: int) -> list[int]:
    folder = package.root / "hooks"
    await eventually(lambda: len(pids(folder)) == count, what=f"{count} processes")
    return pids(folder)


async def test_a_hook_that_never_ends_is_ended_at_its_time_limit(runner: HookRunner, package: HookPackage) -> None:
    begin = time.monotonic()
    with pytest.raises(TransientError, match=r"timed out after 0\.3 s and was ended, its last lines:\nworking"):
        await runner.run(package.hook_run("echo $$ > pid-main; echo working; sleep 1000", timeout=0.3))
    assert time.monotonic() - begin < SOON
    assert not any(alive(pid) for pid in pids(package.root / "hooks"))


async def test_a_time_out_lets_a_hook_clean_up(runner: HookRunner, package: HookPackage) -> None:
    script = "trap 'echo cleaned > cleaned; exit 0' TERM; sleep 1000 & wait"
    with pytest.raises(TransientError, match="timed out"):
        await runner.run(package.hook_run(script, timeout=0.3))
    assert (package.root / "hooks/cleaned").exists()


async def test_a_hook_that_forks_and_ignores_sigterm_dies_as_a_group(runner: HookRunner, package: HookPackage) -> None:
    begin = time.monotonic()
    with pytest.raises(TransientError, match="timed out"):
        await runner.run(package.hook_run(STUBBORN, timeout=1.0))
    elapsed = time.monotonic() - begin
    family = pids(package.root / "hooks")
    assert len(family) == 3
    assert not any(alive(pid) for pid in family)
    assert 3.9 < elapsed < SOON  # the limit, and three seconds of grace


@pytest.mark.parametrize("script", ["echo $$ > pid-main; sleep 1000", STUBBORN], ids=["obedient", "stubborn"])
async def test_cancelling_ends_the_group_at_once(runner: HookRunner, package: HookPackage, script: str) -> None:
    task = asyncio.create_task(runner.run(package.hook_run(script)))
    family = await started(package, 3 if script is STUBBORN else 1)
    begin = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begin < SOON
    assert not any(alive(pid) for pid in family)


async def test_cancelling_again_does_not_cut_the_killing_short(
    runner: HookRunner, package: HookPackage, tmp_path: Path
) -> None:
    task = asyncio.create_task(runner.run(package.hook_run(STUBBORN)))
    family = await started(package, 3)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(alive(pid) for pid in family)
    assert run_folders(tmp_path) == []


async def test_cancelling_before_the_process_is_there_starts_none(
    runner: HookRunner, package: HookPackage, tmp_path: Path
) -> None:
    for delay in (0, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006):
        task = asyncio.create_task(runner.run(package.hook_run("echo $$ > pid-$$; sleep 1000")))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not any(alive(pid) for pid in pids(package.root / "hooks"))
        assert run_folders(tmp_path) == []


async def test_a_grandchild_that_holds_stdout_does_not_hold_up_the_run(
    runner: HookRunner, package: HookPackage, logged: Logged
) -> None:
    begin = time.monotonic()
    await runner.run(package.hook_run("sh -c 'echo $$ > pid-child; sleep 1000' & echo done"))
    assert time.monotonic() - begin < SOON
    assert not any(alive(pid) for pid in pids(package.root / "hooks"))
    warnings = [entry["event"] for entry in logged if entry["log_level"] == "warning"]
    assert warnings == ["hook ended before processes it had started; they were ended"]


ESCAPES = {
    "session": "setsid sh -c 'echo $$ > pid-a; exec sleep 1000' &",
    "daemon": "(setsid sh -c 'sh -c \"echo \\$\\$ > pid-a; exec sleep 1000\" & exit' &)",
    "clean": "(env -i setsid sh -c 'sh -c \"echo \\$\\$ > pid-a; exec sleep 1000\" & exit' &)",
    "family": "setsid sh -c 'echo $$ > pid-a; sh -c \"echo \\$\\$ > pid-b; exec sleep 1000\" & wait' &",
}


@pytest.mark.parametrize("way", ESCAPES)
@pytest.mark.parametrize("end", ["exit 0", "exit 3", "sleep 1000"], ids=["success", "failure", "cancelled"])
async def test_what_left_the_group_ends_with_the_run_too(
    runner: HookRunner, package: HookPackage, logged: Logged, way: str, end: str
) -> None:
    count = 2 if way == "family" else 1
    script = f"{ESCAPES[way]}\nwhile [ $(cat pid-* 2>/dev/null | wc -l) -lt {count} ]; do sleep 0.01; done; {end}"
    running = asyncio.create_task(runner.run(package.hook_run(script, timeout=60)))
    escaped = await started(package, count)
    if end.startswith("sleep"):
        running.cancel()
    with contextlib.suppress(TransientError, asyncio.CancelledError):
        await running
    await eventually(lambda: not any(alive(pid) for pid in escaped), what="what had escaped is gone")
    warned = any("they were ended" in entry["event"] for entry in logged)
    assert warned == (end != "sleep 1000")


async def test_runs_beside_it_are_left_alone(runner: HookRunner, package: HookPackage) -> None:
    beside = asyncio.create_task(
        runner.run(package.hook_run("setsid sh -c 'echo $$ > pid-beside; sleep 1000' & sleep 60"))
    )
    (other,) = await started(package, 1)
    await runner.run(package.hook_run("setsid sleep 1000 &"))
    assert alive(other)
    beside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beside
    await eventually(lambda: not alive(other), what="it ends with its own run")


async def test_one_that_put_away_its_environment_ends_with_the_run_too(
    runner: HookRunner, package: HookPackage
) -> None:
    script = "env -i setsid sh -c 'echo $$ > pid-a; exec sleep 1000' & while [ ! -s pid-a ]; do sleep 0.01; done"
    await asyncio.wait_for(runner.run(package.hook_run(script)), 30)
    (escaped,) = pids(package.root / "hooks")
    assert not alive(escaped)


async def test_a_stopped_hook_is_killed_all_the_same(runner: HookRunner, package: HookPackage) -> None:
    with pytest.raises(TransientError, match="timed out"):
        await runner.run(package.hook_run("echo $$ > pid-main; kill -STOP $$", timeout=0.3))
    assert not any(alive(pid) for pid in pids(package.root / "hooks"))


WORKER = """
import asyncio, sys
from pathlib import Path
from windlass.adapters.hooks.runner import HookRunner, RunnerSettings
from windlass.domain.packages.model import Binding, Hook
from windlass.ports.hooks import HookRun

async def main():
    package = Path(sys.argv[2])
    settings = RunnerSettings(runs=Path(sys.argv[1]), packages=(package,), writable=(package,))
    async with HookRunner(settings, environment={"PATH": sys.argv[3]}) as runner:
        hook = Hook(path="hooks/hook.sh", orders={Binding.BEFORE_HELM: 1})
        await runner.run(HookRun(
            root=package, hook=hook, binding=Binding.BEFORE_HELM, context=[], values={"secret": "hush"},
            config_values={}, kubeconfig="token: hush", namespace="prod", package_id="prod.billing"))

asyncio.run(main())
"""


ESCAPE = "env -i setsid sh -c 'echo $$ > pid-escaped; exec sleep 1000' &"


@pytest.mark.parametrize("escape", ["", ESCAPE], ids=["", "escape"])
async def test_a_killed_worker_takes_its_hooks_and_their_files_with_it(
    package: HookPackage, tmp_path: Path, escape: str
) -> None:
    package.write(f"{escape}\n{STUBBORN}")
    runs = tmp_path / "killed"
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(runs), str(package.root), os.environ["PATH"]
    )
    family = await started(package, 4 if escape else 3)
    assert list(runs.glob("worker-*/run-*/values.json"))
    worker.kill()
    await worker.wait()
    await eventually(lambda: not any(alive(pid) for pid in family), what="the hook's processes are gone")
    await eventually(lambda: not list(runs.iterdir()), what="the run's files are gone")


def keepers(runner: HookRunner) -> list[int]:
    return [one.pid for one in watch.family(runner_pid(runner)) if one.parent == runner_pid(runner)]


def runner_pid(runner: HookRunner) -> int:
    connection = runner._link._connection
    assert connection is not None
    assert isinstance(connection._runner, LocalRunner)
    return connection._runner.pid


@pytest.mark.parametrize("who", ["runner", "keeper"])
async def test_a_killed_runner_or_keeper_fails_the_hook_and_leaves_nothing(
    runner: HookRunner, package: HookPackage, tmp_path: Path, who: str
) -> None:
    running = asyncio.create_task(runner.run(package.hook_run(f"{ESCAPE}\n{STUBBORN}")))
    family = await started(package, 4)
    (keeper,) = keepers(runner)
    os.kill(runner_pid(runner) if who == "runner" else keeper, signal.SIGKILL)
    with pytest.raises(TransientError) as caught:
        await running
    assert caught.value.reason is Reason.BEFORE_HELM_HOOKS_FAILED
    await eventually(lambda: not any(alive(pid) for pid in family), what="the hook's processes are gone")
    if who == "runner":
        await eventually(lambda: not runner._link._connection.open, what="the worker sees it")
    await runner.run(package.hook_run("true"))
    await eventually(lambda: len(list((tmp_path / "runs").iterdir())) == 1, what="one folder of a living runner")


async def test_a_runner_that_was_killed_at_rest_is_started_again(runner: HookRunner, package: HookPackage) -> None:
    first = runner_pid(runner)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not alive(first), what="the runner is gone")
    await eventually(lambda: not runner._link._connection.open, what="the worker sees it")
    await runner.run(package.hook_run("true"))
    assert runner_pid(runner) != first
