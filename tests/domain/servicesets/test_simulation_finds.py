"""The simulation of lives can fail: each of these planted bugs is found by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from domain.servicesets import simulator
from domain.servicesets.test_simulation import live, lives
from hypothesis import Phase, given, settings

from windlass.domain.servicesets import dependencies, operation, resolve
from windlass.domain.servicesets.keys import ServiceKey
from windlass.domain.servicesets.models import ServiceSetSpec
from windlass.servicesets import Service, ServiceState, ServiceWithValues

type Plant = Callable[[pytest.MonkeyPatch], None]


def instead(module: Any, name: str, bug: Any) -> Plant:
    return lambda patch: patch.setattr(module, name, bug)


def gated_over(levels: int) -> Plant:
    """Dependencies are looked at over so many levels only; the first one is looked at elsewhere."""

    def clear(named: Mapping[ServiceKey, Sequence[ServiceKey]], missing: Mapping[ServiceKey, str]) -> Any:
        found: dict[ServiceKey, bool] = {}
        for key in named:
            reached = {key}
            behind: set[ServiceKey] = set()
            for _ in range(levels - 1):
                reached = {other for one in reached for other in named[one]}
                behind |= reached
            found[key] = not behind & missing.keys()
        return found

    return instead(dependencies, "_clear", clear)


def state_alone(_: Service, stored: ServiceWithValues | None, state: ServiceState | None) -> str:
    return "" if stored is not None and state is not None and state.state == "Deployed" else "not deployed yet"


def where_it_stands(_: Service, stored: ServiceWithValues | None, state: ServiceState | None) -> str:
    return "" if stored is not None and resolve.is_deployed(stored, state) else "not deployed yet"


def straight(_: ServiceKey, __: ServiceWithValues | None, desired: Service, ___: Any) -> tuple[str, str]:
    return desired.template, desired.version


def off_the_chain(key: ServiceKey, stored: ServiceWithValues | None, desired: Service, next_hop: Any) -> Any:
    return NEXT(key, stored, desired, next_hop) or (desired.template, desired.version)


def without_locked(patch: pytest.MonkeyPatch) -> None:
    for module in (operation, simulator):
        patch.setattr(module, "build_services_list", lambda _, filtered, __: tuple(filtered))


def in_order(one: ServiceSetSpec, other: ServiceSetSpec) -> bool:
    return one == other


NEXT = resolve._next

BUGS: dict[str, Plant] = {
    "dependencies are gated over one level": gated_over(1),
    "dependencies are gated over two levels": gated_over(2),
    "a dependency is satisfied by its state alone": instead(dependencies, "_lack", state_alone),
    "a dependency is satisfied wherever it stands": instead(dependencies, "_lack", where_it_stands),
    "a service goes straight to what is wanted": instead(resolve, "_next", straight),
    "what no route reaches is taken": instead(resolve, "_next", off_the_chain),
    "a service moves on while it is in flight": instead(resolve, "is_deployed", lambda *_: True),
    "locked services are dropped": without_locked,
    "the order of services is a difference": instead(operation, "_same", in_order),
    "nobody is told of a gate": instead(resolve, "withheld", lambda *_: False),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @settings(max_examples=600, phases=[Phase.generate], database=None, derandomize=True, report_multiple_bugs=False)
    @given(lives())
    def life(one: Any) -> None:
        live(*one)

    BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        life()
