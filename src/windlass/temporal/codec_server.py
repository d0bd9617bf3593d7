"""Decode endpoint: shows people in the Temporal UI and CLI what the payload codec encrypted.

It speaks Temporal's remote codec protocol (``POST <endpoint>/decode`` with JSON payloads). `/encode` does not exist:
actions go through Windlass. A token is required, as ``Authorization: Bearer`` header or as path segment of the endpoint
(``http://127.0.0.1:PORT/<token>``), because a Temporal UI without login has no token to send and never sends one to a
plain-HTTP endpoint; docs/adr/0002-payload-codec.md says when to use which. Browsers are let in from the configured
UI origins only. A request names the Temporal namespace and not the workflow: a payload is opened for the namespace of
the request and for the workflow that it names itself, both of which it was sealed for. Payloads, tokens and paths are
never logged.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal.codec_token import check_token
from windlass.temporal.sealing import Binding, Sealer, is_sealed, written_for

LOOPBACK: Final = "127.0.0.1"
MAX_REQUEST: Final = 8 * 1024 * 1024
"""Bytes of one request: a payload has at most 2 MB, 2.7 MB in base64, and the UI asks event by event."""
MAX_PAYLOADS: Final = 1000

_ALLOW_HEADERS: Final = "Content-Type, X-Namespace, Authorization, Authorization-Extras"
_NAMESPACE: Final = "X-Namespace"  # UI and CLI send it with every request
_PREFLIGHT_SECONDS: Final = 600


def create_app(sealer: Sealer, *, namespace: str, token: str, origins: Iterable[str]) -> web.Application:
    """Build the endpoint.

    Args:
        sealer: decodes.
        namespace: Temporal namespace of payloads whose request does not name one.
        token: shared secret of letters, digits, dashes and underscores.
        origins: origins (``http://127.0.0.1:8233``) that a browser may ask from.

    Raises:
        PermanentError: VALIDATION_FAILED, the token is too short or has other characters.
    """
    check_token(token)
    app = web.Application(client_max_size=MAX_REQUEST, middlewares=[_cors(frozenset(origins))])
    endpoint = _Endpoint(sealer, namespace, token)
    for path in ("/decode", "/{token}/decode"):
        app.router.add_post(path, endpoint.decode)
        app.router.add_options(path, _preflight)
    return app


@asynccontextmanager
async def serve(app: web.Application, *, port: int, host: str = LOOPBACK) -> AsyncGenerator[int]:
    """Serve ``app`` inside the ``async with`` block; yields the port, which is a free one if ``port`` is 0.

    Raises:
        PermanentError: VALIDATION_FAILED, the port cannot be bound.
    """
    # The access log would hold the token.
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"the decode endpoint cannot listen on {host}:{port}: {error.strerror}",
                hint="choose another port",
                actor=Actor.ADMIN,
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class _Endpoint:
    def __init__(self, sealer: Sealer, namespace: str, token: str) -> None:
        self._sealer = sealer
        self._namespace = namespace
        self._token = token.encode()

    async def decode(self, request: web.Request) -> web.Response:
        if not self._admits(request):
            raise web.HTTPUnauthorized(text="token missing or wrong", headers={"WWW-Authenticate": "Bearer"})
        try:
            payloads = json_format.Parse(await request.read(), Payloads())
        except (json_format.ParseError, UnicodeDecodeError):
            # The parser's message quotes what it read.
            raise web.HTTPBadRequest(text="the body is not Temporal's Payloads as JSON") from None
        if len(payloads.payloads) > MAX_PAYLOADS:
            raise web.HTTPRequestEntityTooLarge(MAX_PAYLOADS, len(payloads.payloads))
        namespace = request.headers.get(_NAMESPACE) or self._namespace
        try:
            opened = Payloads(payloads=[self._opened(payload, namespace) for payload in payloads.payloads])
        except PermanentError as error:
            raise web.HTTPUnprocessableEntity(text=str(error)) from None
        return web.Response(text=json_format.MessageToJson(opened, indent=None), content_type="application/json")

    def _opened(self, payload: Payload, namespace: str) -> Payload:
        """Open one payload for the workflow that it names; show one that was never sealed as it is."""
        if not is_sealed(payload):
            return payload
        return self._sealer.open(payload, Binding(namespace, written_for(payload).decode(errors="replace")))

    def _admits(self, request: web.Request) -> bool:
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        offered = [request.match_info.get("token", "")]
        if scheme.lower() == "bearer":
            offered.append(bearer.strip())
        return any(hmac.compare_digest(offer.encode(errors="replace"), self._token) for offer in offered)


async def _preflight(_request: web.Request) -> web.Response:
    """Answer a browser's OPTIONS request, which carries no credentials; `_cors` has judged its origin."""
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": _ALLOW_HEADERS,
            "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
        },
    )


def _cors(origins: frozenset[str]) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is None:  # not a browser
            return await handler(request)
        if origin not in origins:
            # Refused here, not only unanswered: a page of another origin could otherwise still make us decode.
            raise web.HTTPForbidden(text="this origin may not decode")
        headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(headers)
            raise
        response.headers.update(headers)
        return response

    return middleware
