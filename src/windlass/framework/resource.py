"""What the reconciliation logic of an operator is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol


class Logger(Protocol):
    """The part of a structlog logger that is used here.

    Fields that are bound to the context (``object``, ``resource``, ``function``) come with each line.
    """

    def debug(self, event: str, /, **fields: Any) -> Any:
        """Tell what helps to find an error."""
        ...

    def info(self, event: str, /, **fields: Any) -> Any:
        """Tell what people want to know when all is well."""
        ...

    def warning(self, event: str, /, **fields: Any) -> Any:
        """Tell what is tried again, or odd."""
        ...

    def error(self, event: str, /, **fields: Any) -> Any:
        """Tell what failed."""
        ...

    def exception(self, event: str, /, **fields: Any) -> Any:
        """Tell what failed, with the trace of the error that is being handled."""
        ...


class Resource(Protocol):
    """A building block of a reconciliation. Several may reconcile one object; they run one after the other.

    (contract: Resource; frameworks.md section 1.3)
    """

    @property
    def name(self) -> str:
        """What identifies the resource in logs and metrics."""
        ...

    async def ensure_created(self, obj: Any) -> None:
        """Bring about what ``obj``, created or changed, asks for. Has to be idempotent (contract: EnsureCreated).

        Raises:
            Exception: whatever went wrong; the chain stops there.
        """
        ...

    async def ensure_deleted(self, obj: Any) -> None:
        """Remove what ``obj``, in the last state it was seen in, had asked for. Has to be idempotent.

        (contract: EnsureDeleted)

        Raises:
            Exception: whatever went wrong; the chain stops there.
        """
        ...


def default_resource_set_resource_func[R: Resource](
    resources: Sequence[R],
) -> Callable[[Any], Awaitable[list[R]]]:
    """Return an async function of an object that answers with these resources, whatever the object.

    (contract: DefaultResourceSetResourceFunc; frameworks.md section 1.1)
    """
    fixed = list(resources)

    async def constant(obj: Any) -> list[R]:
        del obj
        return list(fixed)

    return constant
