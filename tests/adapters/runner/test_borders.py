"""What a hook tries to reach that is not its own, by a runner that gives users to packages and by one that does not."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hook_package import HookPackage
from support.waiting import eventually
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.runner import landlock
from windlass.domain.errors import TransientError

from .conftest import NOBODY

pytestmark = pytest.mark.skipif(landlock.version() < 6, reason="the kernel has no Landlock 6 or newer")

type Lines = Callable[[], list[str]]

DENIED = "denied"


async def tried(runner: HookRunner, package: HookPackage, lines: Lines, *commands: str) -> list[str]:
    """Run a hook that tries each command; return ``denied`` or what the command printed, for each."""
    script = "\n".join(
        f'out=$({{ {command}; }} 2>/dev/null) && echo "did $out" || echo {DENIED}' for command in commands
    )
    await runner.run(package.hook_run(script))
    return lines()[-len(commands) :]


async def test_files_of_the_worker_are_closed(
    runner: HookRunner, package: HookPackage, lines: Lines, ground: Path, user: str
) -> None:
    keyring = ground / "keyring.yaml"
    keyring.write_text("keys: hush")
    keyring.chmod(0o600)
    if user == "shared user":
        os.chown(keyring, NOBODY, NOBODY)  # the worker's user is the hook's
    token = ground / "var/run/secrets/token"
    token.parent.mkdir(parents=True)
    token.write_text("hush")
    token.chmod(0o644)  # as kubelet makes it for a pod without fsGroup
    found = await tried(
        runner,
        package,
        lines,
        f"cat {keyring}",
        f"cat {token}",
        f"ls {ground}",
        "cat /etc/shadow",
        "ls ~root",
        f"cat {package.root}/hooks/hook.sh >/dev/null && echo own",
    )
    assert found == [*[DENIED] * 5, "did own"]


async def test_processes_of_others_are_closed(runner: HookRunner, package: HookPackage, lines: Lines) -> None:
    worker = runner._link._connection._runner.pid  # in shared mode of the same user; the worker of tests is root's
    found = await tried(
        runner,
        package,
        lines,
        f"cat /proc/{worker}/environ",
        f"cat /proc/{worker}/cmdline",
        "cat /proc/$PPID/environ",
        f"head -c1 /proc/{worker}/mem",
        f"ls /proc/{worker}/cwd/",
        f"kill -0 {worker}",
        "kill -KILL $PPID",
        "ls /proc",
    )
    assert found == [DENIED] * 8


PTRACE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(0 if libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0 else 1)
"""


async def test_the_worker_cannot_be_traced(runner: HookRunner, package: HookPackage, lines: Lines) -> None:
    (package.root / "hooks").mkdir(parents=True)
    (package.root / "trace.py").write_text(PTRACE)
    assert await tried(runner, package, lines, f"/usr/bin/python3 {package.root}/trace.py {os.getpid()}") == [DENIED]


async def test_nothing_is_written_outside_the_folder_of_the_run(
    runner: HookRunner, package: HookPackage, lines: Lines, ground: Path
) -> None:
    found = await tried(
        runner,
        package,
        lines,
        f"echo x > {package.root}/hooks/other.sh",
        f"echo x >> {package.root}/hooks/hook.sh",
        f"echo x > {ground}/x",
        "echo x > /tmp/windlass-escape",
        "echo x > /dev/shm/windlass-escape",
        "echo x > /var/tmp/windlass-escape",
        "mknod $HOME/disk b 8 0",
        "echo x > $HOME/x && echo own",
        "echo x > /dev/null && echo nothing",
        "echo said > /dev/stdout",
    )
    assert found == [*[DENIED] * 7, "did own", "did nothing", "did said"]


async def test_packages_do_not_see_each_others_runs(
    runner: HookRunner, package: HookPackage, lines: Lines, ground: Path
) -> None:
    victim = HookPackage(ground / "victim")
    waits = victim.hook_run(
        'echo started; while [ ! -e "$HOME/on" ]; do sleep 0.02; done',
        values={"secret": "hush"},
        package_id="prod.victim",
    )
    running = asyncio.create_task(runner.run(waits))
    await eventually(lambda: "started" in lines(), what="the victim runs")
    (values,) = (ground / "runs").glob("worker-*/run-*/values.json")
    found = await tried(
        runner,
        package,
        lines,
        f"cat {values}",
        f"ls {values.parent}",
        f"touch {values.with_name('home')}/on",
        f"ls {values.parent.parent}",
        f"cat {victim.root}/hooks/hook.sh",
        "pkill -KILL sleep",
    )
    assert found == [DENIED] * 6
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_abstract_sockets_of_others_are_closed(runner: HookRunner, package: HookPackage, lines: Lines) -> None:
    (package.root / "hooks").mkdir(parents=True)
    script = package.root / "connect.py"
    script.write_text("import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])")
    name = f"windlass-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        assert await tried(runner, package, lines, f"/usr/bin/python3 {script} {name}") == [DENIED]


async def test_users_are_not_gained_back(runner: HookRunner, package: HookPackage, lines: Lines, user: str) -> None:
    await runner.run(package.hook_run("id -u; id -G; cat /proc/cpuinfo >/dev/null && echo read; ulimit -c"))
    uid, groups, read, cores = lines()
    assert (read, cores) == ("read", "0")
    if user == "own user":
        assert int(uid) >= 30_000
        assert groups == uid


async def test_only_what_lies_below_the_folders_of_packages_is_run(runner: HookRunner, tmp_path: Path) -> None:
    elsewhere = HookPackage(tmp_path / "elsewhere")
    with pytest.raises(TransientError, match="is not below a folder of packages"):
        await runner.run(elsewhere.hook_run("true"))
