"""The scene of the attacks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.attacks import Scene, attacked
from windlass.devstack.stack import Stack


@pytest.fixture(scope="module")
async def scene(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with attacked(stack, tmp_path_factory.mktemp("attacks")) as made:
        yield made
