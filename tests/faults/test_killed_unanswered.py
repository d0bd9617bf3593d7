"""The worker is killed -9 when a step of an installation has taken effect and the worker does not know."""

from __future__ import annotations

import pytest
from faults.installing import ANSWERED, check_gone_on, killed_at
from faults.points import RECOVERED_WITHIN, Field, Point


@pytest.fixture(scope="module")
async def killed(field: Field) -> Field:
    """Every package at its point, the worker killed and started again, everything ready."""
    return await killed_at(field, ANSWERED)


@pytest.mark.parametrize("point", [pytest.param(one, id=one.name) for one in ANSWERED])
async def test_an_installation_goes_on(killed: Field, point: Point) -> None:
    await check_gone_on(killed, point)


def test_all_installations_go_on_in_time(killed: Field) -> None:
    assert killed.seconds <= RECOVERED_WITHIN
