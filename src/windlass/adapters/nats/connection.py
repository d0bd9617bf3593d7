"""One connection to NATS: who we are, whom we trust, and that it comes back whatever happens to the server."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from nats.aio.client import Client

from windlass.adapters.nats.access import NatsAccess
from windlass.adapters.nats.credentials import credentials, nkey_seed, read
from windlass.adapters.nats.failures import failure, translated
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError

RECONNECT_WAIT: Final = 0.25
"""Seconds between two tries to reach a server that went away."""

_DENIALS: Final = 100  # refusals that are remembered; each belongs to a call that waits for its answer for seconds
_FIRST_TRY: Final = 10.0  # seconds until the first connection is given up
_CONNECT_TIMEOUT: Final = 5
_PING_INTERVAL: Final = 10  # seconds; a server that hangs is noticed after two of them
_FOR_EVER: Final = -1

_log: Final = structlog.stdlib.get_logger(__name__)


class NatsConnection:
    """A connection that reconnects for ever, and tells who follows a bucket that it was lost."""

    def __init__(self, where: str) -> None:
        self.client = Client()
        self.where = where
        self.refused: asyncio.Future[WindlassError] = asyncio.get_running_loop().create_future()
        self.last_error = ""
        """What came of the latest try to connect, for people."""
        self.closing = False
        """Whether it is we who end it: then its end is no news."""
        self._lost = asyncio.Event()
        self._denials: deque[str] = deque(maxlen=_DENIALS)

    @property
    def jetstream(self) -> Any:
        """JetStream over this connection; `Any`, since what nats-py says of its types is half unknown."""
        client: Any = self.client
        return client.jetstream()

    @property
    def up(self) -> bool:
        """Whether the server can be asked now."""
        return self.client.is_connected

    @property
    def closed(self) -> bool:
        """Whether the connection is over for good: ended by us, or by a server that will not have us back."""
        return self.client.is_closed

    @property
    def lost(self) -> asyncio.Event:
        """An event that is set when the connection is lost the next time; take it before asking anything."""
        return self._lost

    def require_up(self, call: str) -> None:
        """Refuse ``call`` while there is no connection: nats-py would keep it and carry it out who knows when.

        Raises:
            TransientError: API_UNAVAILABLE.
        """
        if not self.up:
            raise TransientError(Reason.API_UNAVAILABLE, f"cannot {call}: no connection to NATS at {self.where}")

    def denied(self, subject: str) -> bool:
        """Say whether the server refused what was sent to ``subject``: the call itself hears nothing of it."""
        return any(f'"{subject.lower()}"' in denial for denial in self._denials)

    async def disconnected(self) -> None:
        """Take note of a lost connection; called by nats-py."""
        self._lost.set()
        self._lost = asyncio.Event()
        if not self.closing:
            _log.warning("disconnected from NATS", server=self.where)

    async def reconnected(self) -> None:
        """Take note of a connection that is back; called by nats-py."""
        _log.info("connected to NATS again", server=self.where)

    async def failed(self, error: Exception) -> None:
        """Take note of an error that belongs to no call; called by nats-py."""
        meaning = failure(f"connect to NATS at {self.where}", error)
        self.last_error = str(error)
        if isinstance(meaning, PermanentError) and not self.refused.done():
            self.refused.set_result(meaning)
        if isinstance(meaning, PermanentError):
            self._denials.append(str(error).lower())
        _log.debug("NATS", server=self.where, error=str(meaning))


@asynccontextmanager
async def connected(access: NatsAccess, *, name: str = "windlass") -> AsyncGenerator[NatsConnection]:
    """Connect; the connection ends with the body.

    Args:
        access: where and as whom.
        name: under which the server lists the connection.

    Raises:
        TransientError: API_UNAVAILABLE, no server answers.
        PermanentError: FORBIDDEN, the server refuses us or its certificate is not trusted; VALIDATION_FAILED, a file of
            ``access`` cannot be read.
    """
    options = _options(access)
    # A URL may hold a password.
    connection = NatsConnection(", ".join(server.rpartition("@")[2] for server in access.servers))
    try:
        await _connect(connection, {"servers": list(access.servers), "name": name, **options})
        yield connection
    finally:
        connection.closing = True
        await connection.client.close()


async def _connect(connection: NatsConnection, options: dict[str, Any]) -> None:
    call = f"connect to NATS at {connection.where}"
    client: Any = connection.client  # a pause of less than a second is fine, though nats-py calls it an integer
    connecting: asyncio.Task[None] = asyncio.create_task(
        client.connect(
            connect_timeout=_CONNECT_TIMEOUT,
            reconnect_time_wait=RECONNECT_WAIT,
            max_reconnect_attempts=_FOR_EVER,
            ping_interval=_PING_INTERVAL,
            disconnected_cb=connection.disconnected,
            reconnected_cb=connection.reconnected,
            error_cb=connection.failed,
            **options,
        )
    )
    # With endless reconnects nats-py tries for ever here, too: a wrong password would look like a server that is down.
    done, _ = await asyncio.wait(
        [connecting, connection.refused], timeout=_FIRST_TRY, return_when=asyncio.FIRST_COMPLETED
    )
    if connecting in done:
        with translated(call):
            connecting.result()
        return
    connecting.cancel()
    await asyncio.wait([connecting])
    if connection.refused.done():
        raise connection.refused.result()
    why = f"; last error: {connection.last_error}" if connection.last_error else ""
    raise TransientError(
        Reason.API_UNAVAILABLE,
        f"cannot {call}: no answer within {_FIRST_TRY:g} s{why}",
        hint="check that the server runs, and the address",
    )


def _options(access: NatsAccess) -> dict[str, Any]:
    options: dict[str, Any] = {
        "user": access.user or None,
        "password": access.password or None,
        "token": access.token or None,
        "user_credentials": credentials(access.credentials) if access.credentials else None,
        "nkeys_seed_str": nkey_seed(access.nkey_seed) if access.nkey_seed else None,
    }
    secure = access.authorities is not None or access.certificate is not None
    if secure or any(server.startswith("tls://") for server in access.servers):
        options["tls"] = _tls(access)
    return options


def _tls(access: NatsAccess) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=access.authorities)
    except (ssl.SSLError, ValueError):
        raise _unfit("the authorities are no certificates in PEM", "correct NATS_CA") from None
    if access.certificate is not None:
        certificate, key = access.certificate
        for path in access.certificate:
            read(path)
        try:
            context.load_cert_chain(certificate, key)
        except ssl.SSLError:
            raise _unfit(f"{certificate} and {key} are no certificate and its key", "both are PEM") from None
    return context


def _unfit(what: str, hint: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, f"NATS access: {what}", hint=hint, actor=Actor.ADMIN)
