"""Resources that are tried again in place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from windlass.framework.backoff import BackOff, BackOffFactory, default_backoff_factory, never, retry
from windlass.framework.errors import InvalidConfigError
from windlass.framework.resource import Logger, Resource
from windlass.framework.wrapping import Operation, wrap


def wrap_with_retry(
    resources: Sequence[Resource],
    *,
    logger: Logger | None,
    backoff_factory: BackOffFactory | None = None,
    for_good: Callable[[Exception], bool] = never,
) -> list[Resource]:
    """Let every operation be tried again; see `windlass.framework.wrapping.wrap` for what is changed in place.

    Each of the seven steps of a CRUD resource is retried alone: steps before it are not repeated. Of a plain resource
    the whole method is. Every operation begins with a full budget. Waiting ends at once when the reconciliation's
    task is cancelled; flags do not end it. Other objects go on meanwhile.

    Args:
        resources: of one set.
        logger: is warned of each error that is tried again, with ``underlying_resource`` and ``function``.
        backoff_factory: makes the waits; `default_backoff_factory` if not given, where operatorkit would try for ever
            and without a pause.
        for_good: says after which errors another try is useless; none unless given, as in operatorkit.

    Returns:
        The resources in their order.

    Raises:
        InvalidConfigError: ``logger`` is None.
    """
    if logger is None:
        raise InvalidConfigError("the retry wrapper needs a logger")
    factory = backoff_factory or default_backoff_factory()
    return wrap(resources, lambda resource: _Retrying(resource.name, logger, factory, for_good))


class _Retrying:
    """An `Around` that calls again."""

    def __init__(
        self, name: str, logger: Logger, factory: BackOffFactory, for_good: Callable[[Exception], bool]
    ) -> None:
        self._name = name
        self._logger = logger
        self._factory = factory
        self._for_good = for_good

    async def __call__[T](self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        # A back-off of its own for each call: objects are reconciled side by side.
        backoff: BackOff = self._factory()
        return await retry(
            call,
            backoff,
            notify=lambda error, wait: self._logger.warning(
                "retrying after an error",
                underlying_resource=self._name,
                function=operation.value,
                error=f"{type(error).__name__}: {error}",
                wait=round(wait, 3),
            ),
            for_good=self._for_good,
        )
