"""Matchers see through wrapping (frameworks.md 1.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.framework import (
    ExecutionFailedError,
    InvalidConfigError,
    InvalidEventError,
    LoopDetectedError,
    NoResourceSetError,
    is_execution_failed,
    is_invalid_config,
    is_invalid_event,
    is_loop_detected,
    is_no_resource_set,
)

MATCHERS: dict[type[Exception], Callable[[BaseException | None], bool]] = {
    ExecutionFailedError: is_execution_failed,
    InvalidConfigError: is_invalid_config,
    InvalidEventError: is_invalid_event,
    LoopDetectedError: is_loop_detected,
    NoResourceSetError: is_no_resource_set,
}


def caused(error: Exception) -> Exception:
    """Return what ``raise RuntimeError from error`` raises."""
    outer = RuntimeError("outer")
    outer.__cause__ = error
    return outer


def handled(error: Exception) -> Exception:
    """Return what is raised while ``error`` is handled, without ``from``."""
    outer = RuntimeError("another")
    outer.__context__ = error
    return outer


@pytest.mark.parametrize("kind", MATCHERS)
def test_each_matcher_finds_its_kind_and_no_other(kind: type[Exception]) -> None:
    error = kind("x")
    wrapped = [error, caused(error), caused(caused(error)), ExceptionGroup("g", [ValueError(), caused(error)])]
    for one in [*wrapped, caused(ExceptionGroup("g", [error]))]:
        assert [other for other, matches in MATCHERS.items() if matches(one)] == [kind]


@pytest.mark.parametrize("matches", MATCHERS.values())
def test_nothing_and_foreign_errors_match_nothing(matches: Callable[[BaseException | None], bool]) -> None:
    assert not matches(None)
    assert not matches(ValueError("no resource set"))
    assert not matches(handled(NoResourceSetError()))


def test_causes_in_a_circle_come_to_an_end() -> None:
    first, second = RuntimeError(), RuntimeError()
    first.__cause__, second.__cause__ = second, first
    assert not is_no_resource_set(first)
