"""Hooks that take more than they may fail as hooks, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hook_package import HookPackage
from support.waiting import SOON, eventually
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.runner import watch
from windlass.domain.errors import Reason, TransientError

ALLOCATE = """
import time
held = []
while True:
    held.append(bytearray(4 << 20))
    time.sleep(0.005)
"""


FORK = """
import os, time
for _ in range(100):
    try:
        os.fork() or (time.sleep(30), os._exit(0))
    except BlockingIOError:
        time.sleep(0.1)
time.sleep(30)
"""


async def refused(runner: HookRunner, package: HookPackage, script: str, text: str, setting: str) -> None:
    with pytest.raises(TransientError, match=text) as caught:
        await asyncio.wait_for(runner.run(package.hook_run(script, timeout=60)), 50)
    assert caught.value.reason is Reason.HOOK_LIMIT_EXCEEDED
    assert setting in caught.value.hint
    await runner.run(package.hook_run("true"))


async def test_memory(runner: HookRunner, package: HookPackage) -> None:
    (package.root / "hooks").mkdir(parents=True)
    (package.root / "allocate.py").write_text(ALLOCATE)
    script = f"/usr/bin/python3 {package.root}/allocate.py"
    await refused(runner, package, script, "used more than 64 MiB of memory and was ended", "WINDLASS_HOOK_MEMORY")


async def test_memory_of_several_processes_counts_together(runner: HookRunner, package: HookPackage) -> None:
    (package.root / "hooks").mkdir(parents=True)
    (package.root / "hold.py").write_text("import time; held = bytearray(24 << 20); time.sleep(60)")
    script = f"for n in 1 2 3; do /usr/bin/python3 {package.root}/hold.py & done; wait"
    await refused(runner, package, script, "used more than 64 MiB of memory", "WINDLASS_HOOK_MEMORY")


async def test_ten_gigabytes_at_once_are_not_to_be_had(runner: HookRunner, package: HookPackage) -> None:
    with pytest.raises(TransientError, match="MemoryError"):
        await runner.run(package.hook_run("/usr/bin/python3 -c 'x = bytearray(10 << 30)'"))


async def test_shared_pages_count_once(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    """Ten processes that share 24 MB are within 64 MB."""
    (package.root / "hooks").mkdir(parents=True)
    (package.root / "share.py").write_text(
        "import os, time\nheld = bytearray(24 << 20)\n"
        "for _ in range(8):\n    if not os.fork():\n        time.sleep(0.5)\n        os._exit(0)\n"
        "time.sleep(0.5)\nprint('shared')"
    )
    await runner.run(package.hook_run(f"/usr/bin/python3 {package.root}/share.py"))
    assert lines() == ["shared"]


async def test_many_processes(runner: HookRunner, package: HookPackage) -> None:
    (package.root / "hooks").mkdir(parents=True)
    (package.root / "fork.py").write_text(FORK)
    script = f"/usr/bin/python3 {package.root}/fork.py"
    await refused(runner, package, script, "had 60 processes and threads and was ended", "WINDLASS_HOOK_PROCESSES")
    await eventually(lambda: not watch.family(_runner(runner)), what="nothing is left")


# Bombs of tests stop by themselves at 2**9 processes: a fault in what is tested must not take the machine along.
BOMB = """
[ $1 -ge 9 ] && exec sleep 30
START "$0" $(($1 + 1)) & START "$0" $(($1 + 1)) & wait
"""


@pytest.mark.parametrize("start", ["", "env -i setsid"], ids=["in its group", "in sessions of their own"])
async def test_a_fork_bomb(runner: HookRunner, package: HookPackage, start: str) -> None:
    """The kernel lets it have so many processes at most; many of its shells end for that."""
    bomb = package.write(BOMB.replace("START", start), path="hooks/lib/bomb.sh")
    with pytest.raises(TransientError):
        await runner.run(package.hook_run(f"{package.root}/{bomb} 0; sleep 60", timeout=2))
    await eventually(lambda: not watch.family(_runner(runner)), what="nothing is left")
    await runner.run(package.hook_run("true"))


FILL = {
    "one file": ("cat /dev/zero > $HOME/big", "wrote more than 8 MiB", "WINDLASS_HOOK_DISK"),
    "many files": (
        "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > $HOME/f$i; done",
        "wrote more than 8 MiB to its folder and was ended",
        "WINDLASS_HOOK_DISK",
    ),
    "unlinked files": (
        """
        exec 3>$HOME/a 4>$HOME/b; rm $HOME/a $HOME/b
        head -c 7000000 /dev/zero >&3; head -c 7000000 /dev/zero >&4; sleep 60
        """,
        "wrote more than 8 MiB",
        "WINDLASS_HOOK_DISK",
    ),
    "inodes": (
        "i=0; while :; do i=$((i+1)); : > $HOME/f$i; done",
        "made more than 200 files",
        "WINDLASS_HOOK_FILES",
    ),
    "depth": (
        "cd $HOME; while :; do mkdir d; cd d; done",
        "made more than 200 files",
        "WINDLASS_HOOK_FILES",
    ),
    "closed folders": (
        "cd $HOME; i=0; while :; do i=$((i+1)); mkdir $i; head -c 1000000 /dev/zero > $i/f; chmod 000 $i; done",
        "wrote more than 8 MiB",
        "WINDLASS_HOOK_DISK",
    ),
}


@pytest.mark.parametrize("way", FILL)
async def test_the_disk(runner: HookRunner, package: HookPackage, ground: Path, way: str) -> None:
    script, text, setting = FILL[way]
    await refused(runner, package, script, text, setting)
    assert not list((ground / "runs").glob("worker-*/*"))


async def test_a_package_whose_hooks_hang_leaves_turns_to_others(
    runner: HookRunner, package: HookPackage, ground: Path
) -> None:
    hanging = [asyncio.create_task(runner.run(package.hook_run("sleep 1000"))) for _ in range(40)]
    other = HookPackage(ground / "other")
    for _ in range(5):
        await asyncio.wait_for(runner.run(other.hook_run("true", package_id="prod.other")), SOON)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)


def _runner(runner: HookRunner) -> int:
    return runner._link._connection._runner.pid
