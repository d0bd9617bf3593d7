"""JSON over HTTP to one API server: connections, TLS, credentials, rate limit, Retry-After. Knows no objects."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import socket
import ssl
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver

from windlass.adapters.kube import failures, seam
from windlass.adapters.kube.answers import VERSION, VERSION_BYTES, AnswerLimits, EndlessAnswerError, whole
from windlass.adapters.kube.failures import Call
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.kube.ratelimit import TokenBucket
from windlass.domain.errors import Actor, PermanentError, Reason

REQUEST_SECONDS: Final = 30.0
"""Time limit of one request. The server's own limit is 60 s; a caller that beats every few seconds wants it shorter."""

RETRIES: Final = 3
"""How often an answer with Retry-After is obeyed in place before the caller gets the error."""

RETRY_AFTER_MAX: Final = 5.0
"""Seconds; a longer wish goes back to the caller, who has its own back-off."""

CONCURRENT: Final = 32
"""Requests in flight at once, streams apart. A burst of hundreds would be hundreds of TLS handshakes and time out."""

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON takes as it is and YAML only escaped; the text of a JSON document has such characters in strings only."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REQUEST: Final = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=5.0)
_KEEPALIVE_SECONDS: Final = 15.0  # well below the server's idle limit, so that no request meets a closing connection
_TOKEN_FILE_SECONDS: Final = 60.0  # projected tokens rotate at 80 % of their life of at least ten minutes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Status and body of a finished request; ``sent`` is how many bytes went there, ``whom`` who asked, if known."""

    status: int
    body: bytes
    sent: int = 0
    whom: str = ""


class Transport:
    """One HTTP session with one API server; an async context manager.

    Args:
        access: address and credentials.
        bucket: one token is taken per request.
        user_agent: also names the field manager of plain writes (the part before the slash).
        clock: monotonic seconds.
        resolver: resolves the server's name; None for the system's resolver.
        whom: as whom requests are sent, for texts of refusals; empty for whoever runs the process.
        limits: how much is read. A server that somebody else chose may answer without end.
    """

    def __init__(
        self,
        access: ApiAccess,
        *,
        bucket: TokenBucket,
        user_agent: str,
        clock: Callable[[], float],
        resolver: AbstractResolver | None = None,
        whom: str = "",
        limits: AnswerLimits | None = None,
    ) -> None:
        self.access = access
        self._whom = whom
        self.limits = limits or AnswerLimits()
        self._resolver = resolver
        self._bucket = bucket
        self._user_agent = user_agent
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._authorization = ""
        self._authorized_at = 0.0
        self._authorizing = asyncio.Lock()
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def open(self) -> None:
        """Open the session; nothing is sent yet."""
        self._tls = await asyncio.to_thread(_tls, self.access, self.access.certificate_pem, self.access.key_pem)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                socket_factory=_keepalive_socket,
                resolver=self._resolver,
            ),
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            proxy=self.access.proxy or None,
        )

    def use_token(self, token: str) -> None:
        """Send this token from the next request on."""
        self.access = replace(self.access, token=token)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        limited: bool = True,
    ) -> Answer:
        """Send one request and read its answer whole, whatever its status.

        ``limited=False`` is for discovery, which is cached and must not eat the budget.

        Raises:
            TransientError: API_UNAVAILABLE, no answer.
            PermanentError: FORBIDDEN, no credentials to be had.
        """
        data = None if body is None else _written(body)
        headers = {"Accept": accept} | ({"Content-Type": content_type} if data is not None else {})
        renewed = False
        retries = 0
        while True:
            if limited:
                await self._bucket.take()
            async with self._slots, self._send(call, method, path, query, data, headers) as response:
                status, retry_after = response.status, _retry_after(response)
                answer = Answer(
                    status=status, body=await self._whole(call, response), sent=len(data or b""), whom=self._whom
                )
            if status == 401 and not renewed and self._renewable:
                renewed = True
                await self._authorize(renew=True)
            elif retry_after is not None and retry_after <= RETRY_AFTER_MAX and retries < RETRIES:
                retries += 1
                await asyncio.sleep(retry_after)
            else:
                return answer

    async def _whole(self, call: Call, response: aiohttp.ClientResponse) -> bytes:
        most = VERSION_BYTES if call.resource == VERSION else self.limits.answer
        try:
            return await whole(response, most, self.limits.budget)
        except EndlessAnswerError:
            raise failures.endless(call) from None

    @asynccontextmanager
    async def stream(
        self, call: Call, path: str, *, query: Mapping[str, str], accept: str, silence: float
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open a long answer; reading it fails with TransientError after ``silence`` seconds without a byte."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=silence)
        retries = 0
        while True:
            await self._bucket.take()
            async with self._send(call, "GET", path, query, None, {"Accept": accept}, timeout=timeout) as response:
                # What a watch of a kind that is new gets, until the server has begun to follow it itself.
                wait = _retry_after(response)
                if wait is None or wait > RETRY_AFTER_MAX or retries >= RETRIES:
                    if response.status == 401 and self._renewable:
                        await self._authorize(renew=True)  # for the caller's next try
                    yield response
                    return
            retries += 1
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def _send(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str],
        *,
        timeout: aiohttp.ClientTimeout = _REQUEST,  # noqa: ASYNC109 - handed to the HTTP client
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("the Kubernetes client is used outside its `async with` block")
        await self._authorize()
        if self._authorization:
            headers = {**headers, "Authorization": self._authorization}
        try:
            async with self._session.request(
                method,
                self.access.server + path,
                params=query,
                data=None if data is None else io.BytesIO(data),  # bytes as they are would be sent without a pause
                headers=headers,
                ssl=self._tls,
                server_hostname=self.access.server_name or None,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                yield response
        except RecursionError:
            raise  # not the connection's, although it is a RuntimeError as well
        except (aiohttp.ClientError, TimeoutError, OSError, EOFError, RuntimeError) as error:
            # uvloop reports descriptors and transports that it finds in a wrong state as RuntimeError.
            raise failures.unreachable(call, error) from error

    @property
    def _renewable(self) -> bool:
        return self.access.plugin is not None or bool(self.access.token_file)

    async def _authorize(self, *, renew: bool = False) -> None:
        """Keep the Authorization header fresh: a token file by age, a plugin's answer until the server refuses it."""
        access = self.access
        if not self._renewable:
            if access.token:
                self._authorization = f"Bearer {access.token}"
            elif access.username:
                pair = f"{access.username}:{access.password}".encode()
                self._authorization = f"Basic {base64.b64encode(pair).decode()}"
            return
        seen = self._authorized_at
        async with self._authorizing:
            fresh = seen != self._authorized_at  # somebody else renewed while we waited
            old = self._clock() - self._authorized_at > _TOKEN_FILE_SECONDS and access.plugin is None
            if fresh or not (renew or old or not self._authorized_at):
                return
            if access.plugin is not None:
                credentials = await seam.plugin_credentials(access.plugin)
                self._authorization = credentials.authorization
                if credentials.certificate_pem:
                    self._tls = await asyncio.to_thread(_tls, access, credentials.certificate_pem, credentials.key_pem)
            else:
                token = await asyncio.to_thread(_read_token, Path(access.token_file))
                self._authorization = f"Bearer {token}"
            self._authorized_at = self._clock()


def _written(body: Any) -> bytes:
    """Return JSON that is YAML too: the server reads an apply as YAML, which knows no escapes of surrogates.

    A lone surrogate is no text; it becomes U+FFFD, which is what the server makes of it in JSON.
    """
    text = _SURROGATE.sub("\ufffd", json.dumps(body, ensure_ascii=False))
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise PermanentError(
            Reason.FORBIDDEN,
            f"cannot read the token file {path}: {error.strerror}",
            hint="mount the service account token, or correct tokenFile in the kubeconfig",
            actor=Actor.ADMIN,
        ) from error


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds the server asks to wait; it says so only for requests that it did not begin to execute."""
    if response.status != 429 and response.status < 500:
        return None
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket whose peer is probed: a vanished API server is noticed after 25 s also by a silent watch."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # macOS calls the first one differently
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _tls(access: ApiAccess, certificate_pem: str, key_pem: str) -> ssl.SSLContext | bool:
    if not access.server.startswith("https://"):
        return True
    try:
        context = ssl.create_default_context(cadata=access.ca_pem or None)
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate_pem:
            _load_client_certificate(context, certificate_pem, key_pem)
    except (ssl.SSLError, ValueError) as error:
        raise PermanentError(
            Reason.API_REJECTED,
            f"the certificates of the kubeconfig for {access.server} cannot be used ({type(error).__name__})",
            hint="renew the kubeconfig",
            actor=Actor.ADMIN,
        ) from None
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate_pem: str, key_pem: str) -> None:
    """Load a certificate and its key; `ssl` takes them from a file only, which lives for this call (mode 0600)."""
    handle, name = tempfile.mkstemp(prefix="windlass-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{certificate_pem.rstrip()}\n{key_pem}")
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
