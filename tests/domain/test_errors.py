from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.errors import (
    MAX_TEXT,
    Actor,
    Category,
    InterruptedStepError,
    PermanentError,
    Reason,
    TransientError,
    WindlassError,
    cap,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


@given(TEXTS, st.integers(40, 300))
def test_capped_texts_fit_and_say_what_is_missing(text: str, limit: int) -> None:
    short = cap(text, limit)
    assert len(short.encode()) <= limit
    assert (short == text) == (len(text.encode()) <= limit)
    if short != text:
        kept, _, mark = short.rpartition(" … (")
        assert text.startswith(kept)
        assert mark == f"{len(text.encode()) - limit} bytes cut)"


@given(TEXTS)
def test_messages_are_capped(text: str) -> None:
    error = PermanentError(Reason.INTERNAL, text * 100, hint="do this")
    assert len(error.message.encode()) <= MAX_TEXT
    assert str(error).endswith("(do this)")


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TransientError(Reason.API_CONFLICT, "x"), Category.TRANSIENT),
        (PermanentError(Reason.API_CONFLICT, "x"), Category.PERMANENT),
        (InterruptedStepError("x"), Category.INTERRUPTED),
    ],
)
def test_categories(error: WindlassError, category: Category) -> None:
    assert error.category is category
    assert str(error) == "x"


def test_the_user_acts_unless_somebody_else_is_named() -> None:
    assert PermanentError(Reason.INTERNAL, "x").actor is Actor.USER
    assert PermanentError(Reason.INTERNAL, "x", actor=Actor.ADMIN).actor is Actor.ADMIN
