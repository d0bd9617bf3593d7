"""Watches the ConfigMaps and Secrets that settings come from, as the accounts of the packages that name them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Final

import structlog

from windlass.activities.references import References
from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.domain.errors import Reason, WindlassError
from windlass.domain.target import Account
from windlass.observers.border import Border
from windlass.ports.kube import Kube, ObjectRef
from windlass.ports.targets import Role

RELEASES: Final = "type!=helm.sh/release.v1"
"""Helm's own Secrets are large, many, and never referenced by settings."""

WATCHES_MAX: Final = 1000
"""Watches at a time, each a connection; what is beyond is noticed when all objects are compared again."""

AGAIN_SECONDS: Final = 15.0
"""Seconds until an account that could not be used is tried again."""

type Followed = tuple[Account, str]
"""An account, and the kind (ConfigMap or Secret) that is watched in its namespace."""

_log = structlog.stdlib.get_logger(__name__)


class ReferenceWatches:
    """One metadata watch for each account and kind.

    Args:
        references: knows the accounts.
        border: runs the watches.
        on_changed: awaited with an object that may have changed.
        on_listed: awaited with account and kind when everything of a namespace may have changed.
    """

    def __init__(
        self,
        references: References,
        border: Border,
        *,
        on_changed: Callable[[ObjectRef], Awaitable[None]],
        on_listed: Callable[[Followed], Awaitable[None]],
    ) -> None:
        self._references = references
        self._border = border
        self._on_changed = on_changed
        self._on_listed = on_listed
        self._running: dict[Followed, asyncio.Task[None]] = {}

    def follow(self, wanted: Iterable[Followed]) -> None:
        """Watch these too."""
        for one in wanted:
            if one not in self._running and len(self._running) < WATCHES_MAX:
                self._running[one] = self._border.spawn_shared("references", partial(self._run, one))

    def keep(self, wanted: Iterable[Followed]) -> None:
        """Stop watching all others."""
        for one in self._running.keys() - set(wanted):
            self._running.pop(one).cancel()

    async def close(self) -> None:
        """Stop watching."""
        tasks = list(self._running.values())
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, followed: Followed) -> None:
        account, kind = followed
        while True:
            try:
                async with self._references.acting_as(account) as acting:
                    await self._watch(await acting.kube(Role.INPUTS), followed)
            except WindlassError as error:
                _log.warning("references not watched", account=str(account), kind=kind, error=str(error))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _watch(self, kube: Kube, followed: Followed) -> None:
        account, kind = followed

        def told(error: WindlassError) -> None:
            _log.warning("watch interrupted", kind=kind, namespace=account.namespace, error=str(error))
            if error.reason is Reason.FORBIDDEN:
                raise error  # the account's token or binding may be void: it is asked for again

        stream = list_and_watch(
            kube,
            "v1",
            kind,
            namespace=account.namespace,
            field_selector=RELEASES if kind == "Secret" else "",
            metadata_only=True,
            on_error=told,
        )
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, Listed):
                    await self._on_listed(followed)
                elif event.type != "BOOKMARK":
                    name = event.object["metadata"]["name"]
                    await self._on_changed(
                        ObjectRef(api_version="v1", kind=kind, namespace=account.namespace, name=name)
                    )
