"""Limits of packages as the environment sets them."""

from __future__ import annotations

import pytest

from windlass.cli.context import Context
from windlass.domain.errors import PermanentError


def test_limits_come_from_the_environment_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Context.find(None).package_limits
    monkeypatch.setenv("WINDLASS_MAX_ARCHIVE_MIB", "1")
    monkeypatch.setenv("WINDLASS_MAX_PACKAGE_FILES", "10")
    monkeypatch.setenv("WINDLASS_MAX_FETCH_SECONDS", "5")
    context = Context.find(None)
    assert (context.package_limits.packed, context.package_limits.entries) == (1 << 20, 10)
    assert (context.package_limits.unpacked, context.package_limits.depth) == (usual.unpacked, usual.depth)
    assert context.fetch_limits.total == 5.0
    monkeypatch.setenv("WINDLASS_MAX_INDEX_MIB", "2")
    monkeypatch.setenv("WINDLASS_MAX_REDIRECTS", "0")
    fetch = Context.find(None).fetch_limits
    assert (fetch.index, fetch.redirects) == (2 << 20, 0)
    monkeypatch.setenv("WINDLASS_MAX_ARCHIVE_MIB", "much")
    with pytest.raises(PermanentError, match="WINDLASS_MAX_ARCHIVE_MIB"):
        assert Context.find(None).package_limits
