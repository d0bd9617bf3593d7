"""jq filters over JSON values."""

from __future__ import annotations

from typing import Any, Final, Protocol

FILTER_SECONDS: Final = 1.0
"""How long a filter may run on one value by default; filters of hooks take well under a millisecond."""


class Jq(Protocol):
    """Runs filters of the jq language 1.8 (https://jqlang.org/manual).

    Numbers are doubles, as in jq itself: integers beyond 2**53 come back rounded. A filter sees no environment
    variables, and no file: ``import`` and ``include`` fail.
    """

    async def check(self, program: str) -> None:
        """Compile a filter.

        Raises:
            PermanentError: FILTER_FAILED, it is no valid filter; the text quotes the filter and says where.
            TransientError: FILTER_FAILED, as `run`.
        """
        ...

    async def run(self, program: str, value: Any, *, timeout: float = FILTER_SECONDS) -> list[Any]:  # noqa: ASYNC109 - the limit is the child's, not the caller's wait
        """Return all results of a filter on a JSON value, in order; a filter may have none.

        Args:
            program: the filter.
            value: what ``.`` is.
            timeout: seconds the filter may run; waiting for a free process does not count.

        Raises:
            PermanentError: FILTER_FAILED, it is no valid filter, or it fails on this value, or it gives more than it
                may. The text never quotes the value.
            TransientError: FILTER_FAILED, it did not end in time, or its process died.
        """
        ...


class SharedJq(Jq, Protocol):
    """Filters of many packages: none delays those of the others."""

    def on_behalf_of(self, package: str) -> Jq:
        """Return the filters of one package: they take turns with those of others and are paid from its own budget."""
        ...
