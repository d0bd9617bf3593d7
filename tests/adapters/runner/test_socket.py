"""A runner that listens on a socket, as in a container of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from support.hook_package import HookPackage, settings
from support.waiting import eventually
from windlass.adapters.hooks.runner import HookRunner
from windlass.domain.errors import TransientError


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def package(tmp_path: Path) -> HookPackage:
    return HookPackage(tmp_path / "worker" / "packages")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start ``windlass worker --role hooks``; nothing else of its environment is there."""
    running: list[subprocess.Popen[bytes]] = []

    def started() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "windlass", "worker", "--role", "hooks", "--data-dir", str(tmp_path)]
        process = subprocess.Popen(command, env={"WINDLASS_HOOKS_SOCKET": str(tmp_path / "hooks.sock")})
        running.append(process)
        return process

    yield started
    for process in running:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[HookRunner]:
    remote = settings(tmp_path, socket=tmp_path / "hooks.sock", packages=(), writable=())
    async with HookRunner(remote, environment={"PATH": "/usr/bin:/bin"}) as made:
        yield made


async def works(runner: HookRunner, package: HookPackage) -> bool:
    await runner.run(package.hook_run("true"))
    return True


async def test_hooks_run_where_the_socket_leads(
    runner: HookRunner,
    package: HookPackage,
    start: Callable[[], subprocess.Popen[bytes]],
    lines: Callable[[], list[str]],
) -> None:
    with pytest.raises(TransientError, match="cannot be run: No such file"):
        await runner.run(package.hook_run("true"))
    first = start()
    await eventually(lambda: works(runner, package), what="the runner listens")
    await runner.run(package.hook_run('tr "\\0" "\\n" < /proc/1/environ; env; true'))
    assert not [line for line in lines() if "WINDLASS_HOOKS_SOCKET" in line]
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    start()
    await eventually(lambda: works(runner, package), what="another runner serves")


CONNECT = """
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
    channel.connect(sys.argv[1])
    channel.settimeout(10)
    print("answered" if channel.recv(1000) else "refused")
"""


async def test_a_hook_is_not_served(
    runner: HookRunner,
    package: HookPackage,
    start: Callable[[], subprocess.Popen[bytes]],
    lines: Callable[[], list[str]],
) -> None:
    """It waits until the worker's line is free, which is when the worker has gone and the hook is killed."""
    start()
    await eventually(lambda: works(runner, package), what="the runner listens")
    (package.root / "connect.py").write_text(CONNECT)
    socket = package.root.parent.parent / "hooks.sock"
    socket.chmod(0o666)
    await runner.run(
        package.hook_run(f"timeout 3 /usr/bin/python3 {package.root}/connect.py {socket} || echo no answer")
    )
    assert "answered" not in lines()
    assert await works(runner, package)
