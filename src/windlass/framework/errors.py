"""Kinds of errors, and matchers that find them below whatever they were wrapped in.

The kinds are those of operatorkit's framework. A matcher looks through ``raise ... from error`` and exception groups;
an error that was merely being handled when another was raised (`__context__`) is another failure and does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast


class FrameworkError(Exception):
    """Base of the framework's own errors; errors of resources pass through as they are.

    Attributes:
        kind: the word that names the kind where types do not reach (logs, other processes).
    """

    kind: ClassVar[str]


class InvalidConfigError(FrameworkError):
    """A constructor was given something that cannot work; the text names what."""

    kind = "invalid-config"


class ExecutionFailedError(FrameworkError):
    """There is nothing to execute, or more than one resource set wants to."""

    kind = "execution-failed"


class NoResourceSetError(FrameworkError):
    """No resource set handles the object: normal where several frameworks share a kind."""

    kind = "no-resource-set"


class InvalidEventError(FrameworkError):
    """A watch brought an event of a type that nobody knows."""

    kind = "invalid-event"


class LoopDetectedError(FrameworkError):
    """Wrappers wrap each other in a circle."""

    kind = "loop-detected"


def is_invalid_config(error: BaseException | None) -> bool:
    """Say whether an `InvalidConfigError` is in or below ``error``; False for None.

    (contract: IsInvalidConfig; frameworks.md section 1.1)
    """
    return _holds(error, InvalidConfigError)


def is_execution_failed(error: BaseException | None) -> bool:
    """Say whether an `ExecutionFailedError` is in or below ``error``; False for None.

    (contract: IsExecutionFailed; frameworks.md section 1.1)
    """
    return _holds(error, ExecutionFailedError)


def is_no_resource_set(error: BaseException | None) -> bool:
    """Say whether a `NoResourceSetError` is in or below ``error``; False for None.

    (contract: IsNoResourceSet; frameworks.md section 1.1)
    """
    return _holds(error, NoResourceSetError)


def is_invalid_event(error: BaseException | None) -> bool:
    """Say whether an `InvalidEventError` is in or below ``error``; False for None."""
    return _holds(error, InvalidEventError)


def is_loop_detected(error: BaseException | None) -> bool:
    """Say whether a `LoopDetectedError` is in or below ``error``; False for None."""
    return _holds(error, LoopDetectedError)


def _holds(error: BaseException | None, kind: type[FrameworkError]) -> bool:
    return any(isinstance(one, kind) for one in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    todo = [] if error is None else [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if id(one) in seen:  # causes can be set by hand, in a circle too
            continue
        seen.add(id(one))
        yield one
        if one.__cause__ is not None:
            todo.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            todo.extend(cast("BaseExceptionGroup[BaseException]", one).exceptions)
