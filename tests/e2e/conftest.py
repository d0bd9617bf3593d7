"""Fixtures of the end-to-end tests, and the two ways in which they run: with long runs and with short ones."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
from replay.recorder import SWITCH

from support.installation import THRESHOLD, Installation, installed
from windlass.devstack.stack import Stack

SHORT: Final = "30"
"""Events after which a lifecycle hands over to its next run, so that it does so within every journey."""

SHORT_TOO: Final = {
    f"test_{name}"
    for name in ("examples", "hooks", "lifecycle", "actions", "races", "readiness", "secrets", "settings")
}
"""Modules about what lifecycles do; they run once more with short runs. `test_handover` chooses for itself."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the modules of `SHORT_TOO` twice; what histories are recorded from runs once."""
    if metafunc.module.__name__.rpartition(".")[2] in SHORT_TOO and "stack" in metafunc.fixturenames:
        once = os.environ.get(SWITCH) == "1" or THRESHOLD in os.environ
        thresholds = [""] if once else ["", SHORT]
        ids = ["short-runs" if threshold else "long-runs" for threshold in thresholds]
        metafunc.parametrize("threshold", thresholds, ids=ids, indirect=True, scope="module")


@pytest.fixture(scope="module")
def threshold(request: pytest.FixtureRequest) -> str:
    """After how many events workers that tests start hand over; empty for the usual number."""
    return getattr(request, "param", "")


@pytest.fixture(scope="module")
def stack(stack: Stack, threshold: str) -> Iterator[Stack]:
    """The stack of this test run.

    Of module scope, so that a module's installation is made anew for the other threshold, and the stack is not.
    """
    with pytest.MonkeyPatch.context() as patch:
        if threshold:
            patch.setenv(THRESHOLD, threshold)
        yield stack


@pytest.fixture
async def installation(stack: Stack, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with no process running yet, and a repository folder declared under ``packages``."""
    async with installed(stack, tmp_path / "installation") as made:
        (tmp_path / "packages").mkdir()
        await made.repository(tmp_path / "packages")
        yield made
