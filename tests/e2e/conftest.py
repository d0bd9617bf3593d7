"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import Installation, installed
from windlass.devstack.stack import Stack


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with no process running yet, and a repository folder declared under ``packages``."""
    async with installed(stack, tmp_path / "installation") as made:
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        yield made
