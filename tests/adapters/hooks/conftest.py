from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import structlog

from support.hook_package import HookPackage, Logged, settings
from windlass.adapters.hooks.runner import HookRunner


@pytest.fixture
def package(tmp_path: Path) -> HookPackage:
    return HookPackage(tmp_path / "package")


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[HookRunner]:
    """A runner of a worker whose own environment holds what no hook may see."""
    environment = {"PATH": os.environ["PATH"], "TZ": "UTC"}
    canaries = {"CANARY": "tweet", "KUBECONFIG": "/admin", "AWS_SECRET": "tweet", "PYTHONPATH": "tweet"}
    async with HookRunner(settings(tmp_path), environment=environment | canaries) as runner:
        yield runner


@pytest.fixture
def logged() -> Iterator[Logged]:
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.fixture
def lines(logged: Logged) -> Callable[[], list[str]]:
    """The lines of hooks logged so far."""
    return lambda: [entry["line"] for entry in logged if entry["event"] == "hook output"]
