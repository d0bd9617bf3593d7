"""The one error of the embedded stack."""

from __future__ import annotations

from windlass.domain.errors import Actor, PermanentError, Reason


class StackError(PermanentError):
    """The embedded stack cannot do what was asked until the machine's owner acts.

    Args:
        message: what is wrong and where.
        hint: what to do about it.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(Reason.INTERNAL, message, hint=hint, actor=Actor.ADMIN)
