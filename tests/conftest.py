"""Fixtures shared by all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from support.installation import WRITABLE
from support.stack import session_stack
from windlass.devstack.stack import Stack

LONGEST = ("faults", "e2e", "devstack", "cli", "workflows", "adapters")
"""Folders whose modules take longest, the first of them minutes for some."""


def pytest_configure() -> None:
    """Take Ctrl-C also where the tests were started with it ignored (a background job): their children inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says more of the machine's other work than of ours; speed is measured in bench/.
    slow = hypothesis.HealthCheck.too_slow
    hypothesis.settings.register_profile("windlass", deadline=None, suppress_health_check=[slow])
    hypothesis.settings.load_profile("windlass")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest: what is left for the end is short, so test processes end at about the same time."""
    items.sort(key=_brevity)


def _brevity(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


@pytest.fixture(scope="session", autouse=True)
def _hooks_may_leave_things_with_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hooks run as users of their own where tests run as root, and write to folders of their own only.

    Tests see what hooks do by files: folders of tests are open to them, and said to be writable.
    """
    make = tmp_path_factory.mktemp

    def opened(basename: str, numbered: bool = True) -> Path:
        folder = make(basename, numbered)
        folder.chmod(0o777)
        return folder

    base = tmp_path_factory.getbasetemp()
    base.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmp_path_factory, "mktemp", opened)
        patch.setenv(WRITABLE, str(base))
        yield


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The one embedded stack of this test run: `.kubeconfig`, `.temporal_address`, `.env`, `.tool("kubectl")`."""
    with session_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
