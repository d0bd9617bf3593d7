"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from faults.points import Field, laid_out

from support.installation import Installation, installed
from windlass.devstack.stack import Stack


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with no process running yet, and a repository folder declared under ``packages``."""
    async with installed(stack, tmp_path / "installation") as made:
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        yield made


@pytest.fixture(scope="module")
async def field(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Field]:
    """An installation behind a proxy that can hold its worker anywhere."""
    async with laid_out(stack, tmp_path_factory.mktemp("field")) as made:
        yield made


@pytest.fixture(scope="session")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of the fault tests' own, whose parts they may kill."""
    with Stack.start(tmp_path_factory.mktemp("own-stack"), report=print) as running:
        yield running


@pytest.fixture
async def own_field(own_stack: Stack, tmp_path: Path) -> AsyncIterator[Field]:
    """As `field`, on the stack whose parts may be killed."""
    async with laid_out(own_stack, tmp_path) as made:
        yield made
