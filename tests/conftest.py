"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.stack import session_stack
from windlass.devstack.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The one embedded stack of this test run: `.kubeconfig`, `.temporal_address`, `.env`, `.tool("kubectl")`."""
    with session_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
