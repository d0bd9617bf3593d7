"""Serves the inspect endpoint of one worker: TLS, bounds, and failures as Status objects. Decides nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from windlass.adapters.inspection.authority import Certificate
from windlass.adapters.inspection.callers import MAX_TOKEN
from windlass.adapters.inspection.wire import TooManyRequestsError, code_of, status_of
from windlass.contracts.inspection import (
    CALLER_HEADER,
    MAX_QUESTION,
    MEMBER_HEADER,
    READY,
    ROOT,
    TICKET_HEADER,
    Question,
    View,
    key_of,
)
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import PackageKey
from windlass.domain.text.documents import DocumentError, parse_json

SECONDS: Final = 60.0
"""Until a request is given up. Rendering fetches the package's content if the worker does not have it."""

CONCURRENT: Final = 32
"""Requests in work; more are refused at once, since each may hold an answer of megabytes."""

_BODY_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 15.0

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, well-formed and of unknown right.

    Attributes:
        key: the package.
        view: what is asked for.
        question: the rest of it.
        token: bearer token; empty if there was none.
        ticket: see `contracts.inspection.TICKET_HEADER`; empty if there was none.
        passed_on_for: who asks, as another worker says who has made sure of everything; None if no worker asks.
    """

    key: PackageKey
    view: View
    question: Question
    token: str = field(default="", repr=False)
    ticket: str = field(default="", repr=False)
    passed_on_for: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer: JSON, and the worker that gave it."""

    body: bytes
    member: str


type Answerer = Callable[[Call], Awaitable[Reply]]
"""Answers a request; raises nothing but WindlassError on purpose."""


class InspectServer:
    """Listens at one address.

    Args:
        answer: answers requests.
        installation: the installation id.
        member: this worker.
        host: interface to listen on; empty for all.
        port: 0 for a free one.
    """

    def __init__(self, answer: Answerer, *, installation: str, member: str, host: str, port: int) -> None:
        self._answer = answer
        self._installation = installation
        self._member = member
        self._host = host
        self._port = port
        self._working = 0
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    @property
    def port(self) -> int:
        """The port in use once `serve` has been called."""
        return self._port

    async def serve(self, certificate: Certificate) -> None:
        """Listen with this certificate, from now on or instead of the one before; open connections go on.

        Raises:
            PermanentError: VALIDATION_FAILED, the address cannot be listened on.
        """
        if self._runner is None:
            app = web.Application(client_max_size=MAX_QUESTION, middlewares=[self._bounded])
            app.router.add_get(READY, self._ready)
            app.router.add_post(f"{ROOT}/{{kind}}/{{namespace}}/{{name}}/{{view}}", self._asked)
            # The access log would name headers of failed requests. A token is one header field.
            runner = web.AppRunner(
                app, access_log=None, keepalive_timeout=_IDLE_SECONDS, max_field_size=MAX_TOKEN + 1024
            )
            await runner.setup()
            self._runner = runner
        if self._site is not None:
            await self._site.stop()
        site = web.TCPSite(
            self._runner,
            self._host or None,
            self._port,
            ssl_context=certificate.serving(),
            reuse_address=True,
        )
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"the inspect endpoint cannot listen on {self._host}:{self._port}: {error}",
                hint="set WINDLASS_INSPECT_ADDRESS to HOST:PORT",
                actor=Actor.ADMIN,
            ) from error
        self._site = site
        self._port = int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """End; requests in work are given a moment by aiohttp and cancelled then."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._site = None

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.json_response({"member": self._member})

    async def _asked(self, request: web.Request) -> web.Response:
        reply = await self._answer(await self._call(request))
        return web.Response(body=reply.body, content_type="application/json", headers={MEMBER_HEADER: reply.member})

    async def _call(self, request: web.Request) -> Call:
        parts = request.match_info
        key = key_of(self._installation, parts["kind"], parts["namespace"], parts["name"])
        if key is None or parts["view"] not in set(View):
            raise PermanentError(Reason.VALIDATION_FAILED, f"there is nothing at {request.path}", hint="upgrade")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await request.read()
        except TimeoutError:
            raise TransientError(Reason.API_UNAVAILABLE, "the body of the request did not arrive in time") from None
        transport = request.transport
        worker = transport is not None and bool(transport.get_extra_info("peercert"))
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        return Call(
            key=key,
            view=View(parts["view"]),
            question=_question(body),
            token=bearer.strip() if scheme.lower() == "bearer" else "",
            ticket=request.headers.get(TICKET_HEADER, ""),
            passed_on_for=request.headers.get(CALLER_HEADER, "") if worker else None,
        )

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Bound number and time of requests; answer every failure with a Status."""
        if self._working >= CONCURRENT:
            return _failure(TooManyRequestsError("the worker has too many inspect requests in work"))
        self._working += 1
        try:
            async with asyncio.timeout(SECONDS):
                return await handler(request)
        except WindlassError as error:
            return _failure(error)
        except web.HTTPException as error:
            return _failure(PermanentError(Reason.VALIDATION_FAILED, error.reason), error.status)
        except TimeoutError:
            return _failure(TransientError(Reason.API_UNAVAILABLE, f"no answer within {SECONDS:g} s", hint="ask again"))
        except Exception:  # noqa: BLE001 - whatever one request meets must not end others; the text is for the log
            _log.error("inspect request failed", path=request.path, exc_info=True)
            return _failure(PermanentError(Reason.INTERNAL, "the worker failed; its log says why", actor=Actor.ADMIN))
        finally:
            self._working -= 1


def _question(body: bytes) -> Question:
    try:
        return Question.model_validate(parse_json(body) if body else {})
    except DocumentError as error:
        raise PermanentError(Reason.DOCUMENT_REJECTED, f"the question is not JSON: {error.message}") from None
    except ValidationError as error:
        fields = ", ".join(sorted({".".join(map(str, one["loc"])) for one in error.errors()}))
        raise PermanentError(
            Reason.VALIDATION_FAILED, f"the question is not understood: {fields}", hint="upgrade the workers"
        ) from None


def _failure(error: WindlassError, code: int = 0) -> web.Response:
    status: dict[str, Any] = status_of(error) | ({"code": code} if code else {})
    headers = {"Retry-After": "5"} if isinstance(error, TooManyRequestsError) else {}
    return web.Response(
        body=json.dumps(status).encode(),
        status=code or code_of(error),
        content_type="application/json",
        headers=headers,
    )
