"""Fixtures for packages from repositories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.registry import RunningRegistry, registry
from windlass.adapters.packages.cache.store import PackageStore


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A registry with a login and a certificate of a private CA."""
    with registry(tmp_path_factory.mktemp("secured"), secured=True) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "store")
