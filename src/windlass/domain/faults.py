"""What is said of work that failed behind a package's border."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, cast

from windlass.domain.errors import WindlassError, cap

CAUSE_MAX: Final = 500
"""Bytes of one cause; a condition's message names several."""

PARTS_MAX: Final = 16
"""Parts that are named at most; there are fewer kinds of work than that."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a part of a package's work does not work.

    Attributes:
        part: the kind of work.
        reason: the reason of an error of ours, the type's name of any other exception.
        cause: for people. Texts of foreign exceptions may hold values, so they stand in the worker's log only.
    """

    part: str
    reason: str
    cause: str


_SPEAKING: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ConnectionError,
    EOFError,
    ImportError,
    MemoryError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    StopAsyncIteration,
    TypeError,
)
"""Exceptions whose texts name types, files, addresses and states of the interpreter. Others (`ValueError`, `KeyError`,
errors of parsers) quote what they were given, which may come from a Secret."""


def text_of(error: BaseException) -> str:
    """Return type and, where it cannot hold values, text of an exception, for the log; all of a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(text_of(one) for one in cast("BaseExceptionGroup[BaseException]", error).exceptions)
    name = type(error).__name__
    if isinstance(error, WindlassError):
        return f"{error.reason.value}: {error}"
    text = str(error) if isinstance(error, _SPEAKING) and not isinstance(error, UnicodeError) else ""
    return cap(f"{name}: {text}" if text else name)


def fault_of(part: str, error: BaseException) -> Fault:
    """Return what may be said of ``error`` in an object's status."""
    if isinstance(error, WindlassError):
        return Fault(part=part, reason=error.reason.value, cause=cap(str(error), CAUSE_MAX))
    name = type(error).__name__
    return Fault(part=part, reason=name, cause=f"{name}{_place(error)}; the worker's log has the text")


def by_part(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return one fault for each part, the first of it, sorted by part."""
    first: dict[str, Fault] = {}
    for fault in faults:
        first.setdefault(fault.part, fault)
    return tuple(first[part] for part in sorted(first))[:PARTS_MAX]


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
