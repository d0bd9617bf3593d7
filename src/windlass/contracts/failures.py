"""How a failure travels: in the details of Temporal failures, in carried state and to people's surfaces."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from windlass.contracts.base import WireModel
from windlass.domain.errors import Actor, Category, Reason


def _known[E: StrEnum](words: type[E], fallback: E) -> BeforeValidator:
    """Read a word that only a newer version knows as ``fallback`` instead of refusing the whole failure."""

    def read(value: object) -> object:
        return value if isinstance(value, str) and value in words else fallback

    return BeforeValidator(read)


class FailureDetails(WireModel):
    """One failure in the words of `windlass.domain.errors`.

    Attributes:
        category: whether to retry, to wait for somebody, or to heal an interrupted step.
        reason: the word for conditions and metrics.
        message: what is wrong and where, at most `windlass.domain.errors.MAX_TEXT` bytes, free of secrets.
        hint: what to do about it; may be empty.
        actor: who must act; set on permanent failures only.
    """

    category: Annotated[Category, _known(Category, Category.TRANSIENT)]
    reason: Annotated[Reason, _known(Reason, Reason.INTERNAL)]
    message: str
    hint: str = ""
    actor: Annotated[Actor, _known(Actor, Actor.ADMIN)] | None = None
