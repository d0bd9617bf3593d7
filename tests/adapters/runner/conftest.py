from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import structlog

from support.hook_package import HookPackage, Logged, settings
from windlass.adapters.hooks import launch
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.runner.protocol import Config, Limits

SETPRIV = "/usr/bin/setpriv"
PYTHON = "/usr/bin/python3"
NOBODY = 54_321
SMALL = Limits(memory=64 << 20, disk=8 << 20, files=200, processes=60)


@pytest.fixture(params=["own user", "shared user"])
def user(request: pytest.FixtureRequest) -> str:
    """How hooks run: as a user of their package, or, by a runner that is not root, as the runner's user."""
    if os.getuid():
        pytest.skip("only root gives users to others")
    if request.param == "shared user" and not (Path(SETPRIV).exists() and Path(PYTHON).exists()):
        pytest.skip("needs setpriv, and a Python that everybody may run")
    return request.param


@pytest.fixture
def ground(user: str) -> Iterator[Path]:
    """A folder that everybody can reach."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-test-"))
    folder.chmod(0o777)
    (folder / "runs").mkdir()
    if user == "shared user":
        os.chown(folder / "runs", NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def package(ground: Path) -> HookPackage:
    return HookPackage(ground / "package")


@pytest.fixture
async def runner(ground: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HookRunner]:
    """A runner with small limits whose hooks may write to their own folders only."""
    if user == "shared user":
        command = launch.command

        def without_rights(config: Config) -> list[str]:
            one_user = [SETPRIV, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", PYTHON]
            return [*one_user, *command(config)[1:]]

        monkeypatch.setattr(launch, "command", without_rights)
    strict = settings(ground, packages=(ground,), writable=(), limits=SMALL)
    async with HookRunner(strict, environment={"PATH": "/usr/bin:/bin"}) as made:
        yield made


@pytest.fixture
def logged() -> Iterator[Logged]:
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.fixture
def lines(logged: Logged) -> Callable[[], list[str]]:
    """The lines of hooks logged so far."""
    return lambda: [entry["line"] for entry in logged if entry["event"] == "hook output"]
