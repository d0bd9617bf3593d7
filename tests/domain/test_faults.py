"""What is said of a failure: enough to find it, nothing that may come from a Secret."""

from __future__ import annotations

import pytest

from windlass.domain.errors import MAX_TEXT, Reason, TransientError
from windlass.domain.faults import PARTS_MAX, Fault, by_part, fault_of, text_of

CANARY = "hunter2"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("File descriptor 62 is used"), "RuntimeError: File descriptor 62 is used"),
        (OSError(9, "Bad file descriptor"), "OSError: [Errno 9] Bad file descriptor"),
        (TransientError(Reason.API_UNAVAILABLE, "away", hint="wait"), "ApiUnavailable: away (wait)"),
        (ExceptionGroup("g", [TypeError("a"), ExceptionGroup("h", [MemoryError()])]), "TypeError: a; MemoryError"),
    ],
)
def test_the_text_of_an_error_is_in_the_log(error: BaseException, text: str) -> None:
    assert text_of(error) == text


@pytest.mark.parametrize(
    "error",
    [ValueError(CANARY), KeyError(CANARY), UnicodeDecodeError("utf-8", b"x", 0, 1, CANARY), Exception(CANARY)],
)
def test_texts_that_quote_what_they_were_given_are_left_out(error: BaseException) -> None:
    assert text_of(error) == type(error).__name__


def test_texts_are_bounded() -> None:
    assert len(text_of(RuntimeError("x" * 100_000)).encode()) <= MAX_TEXT


def test_a_cause_names_type_and_place() -> None:
    def fails() -> None:
        raise RuntimeError(CANARY)

    with pytest.raises(RuntimeError) as failed:
        fails()
    fault = fault_of("drift", failed.value)
    assert (fault.part, fault.reason) == ("drift", "RuntimeError")
    assert "test_faults.py" in fault.cause
    assert CANARY not in fault.cause


def test_each_part_is_named_once_and_not_too_many_are() -> None:
    faults = [Fault(part=f"p{number:02}", reason=reason, cause="c") for number in range(50) for reason in ("A", "B")]
    found = by_part(faults)
    assert len(found) == PARTS_MAX
    assert [one.part for one in found] == sorted({one.part for one in found})
    assert {one.reason for one in found} == {"A"}
