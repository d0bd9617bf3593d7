"""Names in a DNS behind an HTTP API: the resources outside Kubernetes and NATS.

GET /records -> [{"host", "target", "owner", "etag"}]; PUT /records/HOST {"target", "owner"}; DELETE /records/HOST with
If-Match. Nobody tells when a record changes: the controller compares whenever it looks at a route.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import aiohttp

from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.entities import Owned

TIMEOUT = aiohttp.ClientTimeout(total=5)


class DnsRecords:
    """The records of one API; an `ExternalClient`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    @property
    def name(self) -> str:
        """For people."""
        return f"DNS records at {self._url}"

    async def open(self) -> None:
        """Make the session; the API is not asked yet."""
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)

    async def close(self) -> None:
        """End the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def set(self, host: str, target: str, *, kind: str, key: str) -> bool:
        """Make ``host`` lead to ``target``; return whether anything had to be changed.

        Raises:
            PermanentError: RELEASE_CONFLICT, the record is somebody else's.
        """
        owner = f"{kind}/{key}"
        there = {record["host"]: record for record in await self._records()}.get(host)
        if there is not None and there["owner"] != owner:
            raise PermanentError(Reason.RELEASE_CONFLICT, f"{host} belongs to {there['owner']}", hint="choose another")
        if there is not None and there["target"] == target:
            return False
        await self._ask("PUT", f"/records/{host}", json={"target": target, "owner": owner})
        return True

    async def hosts_of(self, kind: str, key: str) -> list[Owned]:
        """Return the records of one route."""
        return [record for record in await self.owned(kind) if record.owner_key == key]

    async def owned(self, kind: str) -> Sequence[Owned]:
        """Return the records of all routes."""
        return [
            Owned(name=record["host"], version=record["etag"], owner_kind=kind, owner_key=key)
            for record in await self._records()
            for owner_kind, _, key in [record["owner"].partition("/")]
            if owner_kind == kind and key
        ]

    async def remove(self, secondary: Owned) -> bool:
        """Delete one record as it was read."""
        status, _ = await self._ask("DELETE", f"/records/{secondary.name}", headers={"If-Match": secondary.version})
        return status != HTTPStatus.NOT_FOUND

    async def _records(self) -> list[dict[str, str]]:
        _, body = await self._ask("GET", "/records")
        return body

    async def _ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        if self._session is None:
            raise TransientError(Reason.API_UNAVAILABLE, f"{self.name}: not open")
        try:
            async with self._session.request(method, self._url + path, **options) as answer:
                body = await answer.json() if answer.content_type == "application/json" else None
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise TransientError(Reason.API_UNAVAILABLE, f"{self.name}: {error or type(error).__name__}") from error
        if answer.status == HTTPStatus.PRECONDITION_FAILED:
            raise TransientError(Reason.API_CONFLICT, f"{self.name}: {path} has changed meanwhile")
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            raise TransientError(Reason.API_UNAVAILABLE, f"{self.name}: {method} {path}: HTTP status {answer.status}")
        return answer.status, body
