"""HTTP as package repositories are spoken to: bounded in size, time and redirects; credentials stay with their host."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from windlass import __version__
from windlass.adapters.packages.format.entries import MAX_PACKED
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.ports.packages import Access

MAX_FETCH: Final = "WINDLASS_MAX_FETCH_SECONDS"
MAX_INDEX: Final = "WINDLASS_MAX_INDEX_MIB"
MAX_REDIRECTS: Final = "WINDLASS_MAX_REDIRECTS"
"""Variables by which who runs a worker sets limits; named in errors that they would have prevented."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_MISSING: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_BUSY: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_CHUNK: Final = 256 << 10


@dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """What a repository may take; times in seconds, sizes in bytes.

    Attributes:
        connect: until a connection stands.
        idle: without a byte.
        total: for one request with its redirects.
        redirects: in a row.
        index: size of ``index.yaml``; that of large public repositories is above 10 MB.
        document: size of any other answer that is read as a whole (4 MiB is what registries allow a manifest).
        versions: of one package, and packages of one repository.
    """

    connect: float = 10.0
    idle: float = 30.0
    total: float = 600.0
    redirects: int = 5
    index: int = 64 << 20
    document: int = 4 << 20
    versions: int = 20_000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer that was read as a whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class Transport:
    """Requests to one repository.

    Args:
        session: whose cookies and redirects are off.
        where: how errors name the repository.
        origin: address whose scheme, host and port get the credentials.
        access: CA, client certificate; the login is the caller's to send.
        insecure: whether plain HTTP may be spoken.
        limits: see there.
        hosts: the only hosts that are spoken to, as `host_of` names them; None for any.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        where: str,
        origin: URL,
        access: Access,
        insecure: bool,
        limits: FetchLimits,
        hosts: frozenset[str] | None = None,
    ) -> None:
        self.where = where
        self.limits = limits
        self.insecure = insecure
        self._session = session
        self._origin = origin
        self._access = access
        self._hosts = hosts
        self._own_tls = _tls(where, access, certificate=True)
        self._other_tls = _tls(where, access, certificate=False) if access.certificate else self._own_tls

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, login: str = "", limit: int = 0
    ) -> Answer:
        """Read one address whatever its status; ``login`` goes into ``Authorization``, to the own host only.

        Raises:
            TransientError: DOWNLOAD_FAILED, the repository does not answer, answers 5xx, or breaks off.
            PermanentError: DOWNLOAD_FAILED, its certificate is not trusted, or what comes exceeds a limit.
        """
        return await self.request("GET", url, headers=headers, login=login, limit=limit)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        login: str = "",
        data: bytes | Path | None = None,
        limit: int = 0,
    ) -> Answer:
        """Make any request; as `get`. The content of a `Path` is streamed."""
        bound = limit or self.limits.document
        async with self._open(method, url, headers or {}, login, data) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > bound:
                    self._too_large(response.url, bound)
            return Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=bytes(body),
                url=str(response.url),
            )

    async def download(
        self, url: str, target: Path, *, headers: Mapping[str, str] | None = None, login: str = "", limit: int
    ) -> tuple[int, str]:
        """Stream one address into the new file ``target``.

        Returns:
            Status, and ``sha256:<hex>`` of what was written; nothing is written unless the status is 200.

        Raises:
            TransientError, PermanentError: as `get`.
        """
        async with self._open("GET", url, headers or {}, login, None) as response:
            if response.status != HTTPStatus.OK:
                return response.status, ""
            size = response.content_length or 0
            if size > limit:
                self._too_large(response.url, limit)
            digest, written = hashlib.sha256(), 0
            with target.open("xb") as out:
                async for chunk in response.content.iter_chunked(_CHUNK):
                    written += len(chunk)
                    if written > limit:
                        self._too_large(response.url, limit)
                    digest.update(chunk)
                    out.write(chunk)
            return response.status, f"sha256:{digest.hexdigest()}"

    def check(self, status: int, url: str, *, login: bool = False) -> None:
        """Raise what an unwelcome status means; 2xx and "not there" pass.

        Raises:
            TransientError: DOWNLOAD_FAILED, it may go by itself.
            PermanentError: UNAUTHORIZED or DOWNLOAD_FAILED.
        """
        if status < HTTPStatus.MULTIPLE_CHOICES or status in _MISSING:
            return
        told = f"{self.where}: {_shown(URL(url))} answers {status} {_phrase(status)}"
        if status in _DENIED:
            raise PermanentError(
                Reason.UNAUTHORIZED,
                f"{told}; {'the login is not accepted' if login else 'no login was given'}",
                hint="mend secretRef of the PackageRepository, or the Secret it names",
                actor=Actor.ADMIN,
            )
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _BUSY:
            raise TransientError(Reason.DOWNLOAD_FAILED, told, hint="it is tried again")
        raise PermanentError(
            Reason.DOWNLOAD_FAILED, told, hint="mend the address in the PackageRepository", actor=Actor.ADMIN
        )

    def elsewhere(self, url: str) -> Transport:
        """Return a transport whose own host is that of ``url``: a token service, which takes the same login."""
        return Transport(
            self._session,
            where=self.where,
            origin=URL(url),
            access=self._access,
            insecure=self.insecure,
            limits=self.limits,
        )

    @asynccontextmanager
    async def _open(
        self, method: str, url: str, headers: Mapping[str, str], login: str, data: bytes | Path | None
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        target = URL(url)
        try:
            async with asyncio.timeout(self.limits.total):
                for _ in range(self.limits.redirects + 1):
                    self._check_host(target)
                    own = target.origin() == self._origin.origin()
                    sent = {**headers, "Authorization": login} if own and login else headers
                    async with self._session.request(
                        method,
                        target,
                        headers=sent,
                        data=await _body(data),
                        allow_redirects=False,
                        ssl=self._own_tls if own else self._other_tls,
                        proxy=_proxy(target),
                    ) as response:
                        if response.status not in _REDIRECTS:
                            yield response
                            return
                        target = self._next(target, response)
        except TimeoutError as error:
            raise TransientError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: {_shown(target)} takes too long",
                hint=f"it is tried again; {MAX_FETCH} of the workers gives it more time",
            ) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise self._failure(target, error) from error
        raise PermanentError(
            Reason.DOWNLOAD_FAILED,
            f"{self.where}: {_shown(URL(url))} redirects more than {self.limits.redirects} times in a row",
            hint=f"mend the address in the PackageRepository, or set {MAX_REDIRECTS} of the workers higher",
            actor=Actor.ADMIN,
        )

    def _next(self, target: URL, response: aiohttp.ClientResponse) -> URL:
        try:
            following = target.join(URL(response.headers.get("Location", "")))
        except ValueError:
            following = URL()
        plain = following.scheme == "http" and (target.scheme == "https" or not self.insecure)
        if following.scheme not in {"http", "https"} or not following.host or plain:
            raise PermanentError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: {_shown(target)} redirects to {'plain HTTP' if plain else 'no web address'}",
                hint="mend the address in the PackageRepository",
                actor=Actor.ADMIN,
            )
        return following.with_user(None)

    def _check_host(self, url: URL) -> None:
        if self._hosts is None or host_of(url) in self._hosts:
            return
        raise PermanentError(
            Reason.HOST_NOT_ALLOWED,
            f"{self.where}: {_shown(url)} is not on the repository's own host ({host_of(self._origin)}), and its "
            f"index or a redirect points there",
            hint=f"if {host_of(url)} may serve archives, add it to spec.helm.archiveHosts of the PackageRepository",
            actor=Actor.ADMIN,
        )

    def _failure(self, url: URL, error: Exception) -> TransientError | PermanentError:
        # The client's own words name hosts and system errors; addresses in them could hold signatures of storage.
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return PermanentError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: the certificate of {url.host} is not trusted: {error.certificate_error}",
                hint="name a Secret with ca.crt in certSecretRef of the PackageRepository",
                actor=Actor.ADMIN,
            )
        if isinstance(error, aiohttp.ClientPayloadError):
            return TransientError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: what {_shown(url)} sends breaks off",
                hint="it is tried again",
            )
        detail = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        hint = "see whether the address is right and something answers there; it is tried again"
        if isinstance(error, aiohttp.ClientSSLError):
            hint = (
                "if it speaks plain HTTP, say so: `insecure: true` beside the address, or --insecure; it is tried again"
            )
        return TransientError(
            Reason.DOWNLOAD_FAILED,
            f"{self.where}: {_shown(url)} cannot be reached ({type(error).__name__}{detail})",
            hint=hint,
        )

    def _too_large(self, url: URL, limit: int) -> None:
        raise PermanentError(
            Reason.ARCHIVE_REJECTED,
            f"{self.where}: {_shown(url)} has more than {limit} bytes",
            hint=f"publish less, or set {MAX_PACKED} of the workers higher ({MAX_INDEX} for index.yaml)",
            actor=Actor.AUTHOR,
        )


@asynccontextmanager
async def connected(
    *,
    where: str,
    origin: str,
    access: Access,
    insecure: bool,
    limits: FetchLimits,
    hosts: frozenset[str] | None = None,
) -> AsyncGenerator[Transport]:
    """Yield a `Transport`; its connections end with the context. Arguments as of `Transport`.

    Raises:
        PermanentError: DOWNLOAD_FAILED, CA or client certificate are no PEM.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect, sock_read=limits.idle)
    async with aiohttp.ClientSession(
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        # Some servers take a .tgz for a compressed .tar: what is asked for are the bytes as they are stored.
        headers={"User-Agent": f"windlass/{__version__}", "Accept-Encoding": "identity"},
    ) as session:
        yield Transport(
            session, where=where, origin=URL(origin), access=access, insecure=insecure, limits=limits, hosts=hosts
        )


def host_of(url: URL) -> str:
    """Return how lists of hosts name the host of an address: ``host``, or ``host:port`` if the port is not the usual.

    Another port is another server, so it has to be listed by itself.
    """
    name = url.raw_host or ""
    host = f"[{name}]" if ":" in name else name
    return host if url.is_default_port() else f"{host}:{url.port}"


async def _body(data: bytes | Path | None) -> bytes | None:
    return await asyncio.to_thread(data.read_bytes) if isinstance(data, Path) else data


def _tls(where: str, access: Access, *, certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if access.authorities:
            context.load_verify_locations(cadata=access.authorities.decode("ascii"))
        if certificate and access.certificate:
            with tempfile.TemporaryDirectory(prefix="windlass-tls-") as folder:  # `ssl` takes them from files only
                pair = [Path(folder, name) for name in ("tls.crt", "tls.key")]
                for path, content in zip(pair, access.certificate, strict=True):
                    path.touch(mode=0o600)
                    path.write_bytes(content)
                context.load_cert_chain(*pair, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise PermanentError(
            Reason.DOWNLOAD_FAILED,
            f"{where}: the Secret of certSecretRef holds no PEM certificates ({type(error).__name__})",
            hint="ca.crt holds authorities, tls.crt and tls.key a client certificate and its key",
            actor=Actor.ADMIN,
        ) from None
    return context


def _proxy(url: URL) -> str | None:
    """Return the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for this address."""
    return None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)


def _shown(url: URL) -> str:
    """Return an address without what may be secret in it: user, password, query."""
    return str(url.with_user(None).with_query(None).with_fragment(None))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
