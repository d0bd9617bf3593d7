"""Asks the inspect endpoint of a worker at its address: as a person's program, or as another worker."""

from __future__ import annotations

import io
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import aiohttp

from windlass.adapters.inspection.server import Reply
from windlass.adapters.inspection.wire import error_of
from windlass.contracts.inspection import MAX_ANSWER, MEMBER_HEADER, READY, Question, server_name
from windlass.domain.errors import PermanentError, Reason, TransientError

_TIMEOUT: Final = aiohttp.ClientTimeout(total=75.0, sock_connect=2.0)
"""Longer than the server's own limit. An address of another network does not answer at all."""

_CHUNK: Final = 64 * 1024


class UnreachableError(TransientError):
    """Nobody answers at an address, or somebody who is not the worker."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(Reason.API_UNAVAILABLE, f"the inspect endpoint at {address} is unreachable: {why}")


class InspectClient:
    """Connections to workers. An async context manager.

    Args:
        tls: says whose certificates are accepted, and which one is presented.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No proxies and no .netrc of the environment: a token would go there.
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ready(self, address: str, member: str) -> None:
        """Make sure that the worker answers, without asking it for anything.

        Raises:
            UnreachableError: it does not.
        """
        await self._send("GET", address, member, READY, None, {})

    async def ask(self, address: str, member: str, path: str, question: Question, headers: Mapping[str, str]) -> Reply:
        """Ask a worker.

        Args:
            address: ``host:port``.
            member: the worker; its certificate has to be for it.
            path: of the view, see `contracts.inspection.path_of`.
            question: the body.
            headers: with the credentials.

        Raises:
            UnreachableError: the worker is not there; it has not been sent anything.
            WindlassError: as the worker answered.
        """
        return await self._send("POST", address, member, path, question.model_dump_json().encode(), headers)

    async def _send(
        self, method: str, address: str, member: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        if self._session is None:
            raise RuntimeError("the inspect client is used outside its `async with` block")
        try:
            async with self._session.request(
                method,
                f"https://{address}{path}",
                data=None if body is None else io.BytesIO(body),  # bytes as they are would be sent without a pause
                headers={"Content-Type": "application/json", **headers},
                ssl=self._tls,
                server_hostname=server_name(member),
                allow_redirects=False,
            ) as response:
                found = await _bounded(response)
                if response.status >= 400 or response.status in range(300, 400):
                    raise error_of(response.status, found)
                return Reply(body=found, member=response.headers.get(MEMBER_HEADER, ""))
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.ServerTimeoutError, ssl.SSLError) as error:
            raise UnreachableError(address, type(error).__name__) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the inspect endpoint at {address} broke off ({type(error).__name__})",
                hint="ask again; the worker may have been stopped",
            ) from error


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        found += chunk
        if len(found) > MAX_ANSWER:
            raise PermanentError(
                Reason.DOCUMENT_REJECTED, f"the answer is larger than {MAX_ANSWER >> 20} MiB", hint="ask for less"
            )
    return bytes(found)
