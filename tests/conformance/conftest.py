"""The ways of running that the suite knows; a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conformance.how import HowToRun
from conformance.in_process import InProcess

HOWS: dict[str, Callable[[], HowToRun]] = {"in-process": InProcess}


@pytest.fixture(params=HOWS)
def how(request: pytest.FixtureRequest) -> HowToRun:
    return HOWS[request.param]()
