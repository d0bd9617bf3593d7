"""A token service for the registry of the tests, as distribution.github.io/distribution/spec/auth/token describes one.

It knows one user, says over TLS who it is, and signs JWTs (ES256) with a key whose certificate the registry trusts.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from support.tls import Identity, identity

SERVICE, ISSUER = "tests-registry", "tests-tokens"
REFRESH = "a-refresh-token"


@dataclass
class TokenService:
    """What tokens it gives, and what it was asked for.

    Attributes:
        lifetime: seconds; the registry grants one more minute (leeway).
        grants: whether tokens allow what was asked for.
        expired: how many of the next tokens have run out already.
        answer: what is sent in place of a token, if anything.
        asked: method, scope and user of every request.
    """

    signer: Identity
    user: str
    password: str
    url: str = ""
    lifetime: int = 300
    grants: bool = True
    expired: int = 0
    answer: bytes | None = None
    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def token(self, scopes: list[str]) -> str:
        """Return a signed token for ``scopes`` such as ``repository:a/b:pull``."""
        access: list[dict[str, Any]] = []
        for scope in scopes if self.grants else []:
            kind, _, rest = scope.partition(":")
            name, _, actions = rest.rpartition(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        begins = int(time.time()) - 10
        if self.expired:
            self.expired -= 1
            begins -= 3600
        claims = {
            "iss": ISSUER,
            "aud": SERVICE,
            "sub": self.user,
            "iat": begins,
            "nbf": begins,
            "exp": begins + self.lifetime,
            "jti": "1",
            "access": access,
        }
        certificate = base64.b64encode(self.signer.certificate.public_bytes(Encoding.DER)).decode()
        signed = ".".join(_part(part) for part in ({"typ": "JWT", "alg": "ES256", "x5c": [certificate]}, claims))
        r, s = decode_dss_signature(self.signer.key.sign(signed.encode(), ec.ECDSA(SHA256())))
        return f"{signed}.{_text(r.to_bytes(32) + s.to_bytes(32))}"

    def reply(self, method: str, query: dict[str, list[str]], authorization: str) -> tuple[int, bytes]:
        """Answer one request; see the flow's specification."""
        scopes = query.get("scope", [])
        expected = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        known = authorization == expected or query.get("refresh_token") == [REFRESH]
        self.asked.append((method, " ".join(scopes), self.user if known else ""))
        if not known:
            return 401, b'{"details": "secret words of the server"}'
        if self.answer is not None:
            return 200, self.answer
        name = "access_token" if method == "POST" else "token"
        return 200, json.dumps({name: self.token(scopes)}).encode()


@contextmanager
def token_service(folder: Path, authority: Identity, user: str, password: str) -> Iterator[TokenService]:
    """Serve tokens on a free port, with a certificate of ``authority``."""
    made = TokenService(signer=identity("tokens", authority), user=user, password=password)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._reply("POST", self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _reply(self, method: str, query: str) -> None:
            status, body = made.reply(method, parse_qs(query), self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
            """Say nothing: tests look at ``asked``."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_identity = identity("server", authority)
    certificate, key = folder / "tokens.crt", folder / "tokens.key"
    certificate.write_bytes(server_identity.certificate_pem)
    key.write_bytes(server_identity.key_pem)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made.url = f"https://127.0.0.1:{server.server_address[1]}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def _part(content: dict[str, Any]) -> str:
    return _text(json.dumps(content).encode())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
