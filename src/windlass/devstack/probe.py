"""One HTTP request that tells whether a part does its work."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import urlsplit

TIMEOUT: Final = 1.0
"""Seconds; the supervisor asks in turn, so one deaf part must not hold up the others for long."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A request without a body and what its answer must hold.

    Attributes:
        url: where.
        token: bearer token; empty for none.
        ca: file with the authority of an HTTPS server's certificate.
        contains: texts that the body must hold, white space apart.
        method: of the request.
        status: that the answer must have.
    """

    url: str
    token: str = ""
    ca: str = ""
    contains: tuple[str, ...] = ()
    method: str = "GET"
    status: int = http.client.OK

    def failure(self) -> str:
        """Ask once; return why the part is not there yet, or an empty string when it is."""
        address = urlsplit(self.url)
        path = address.path or "/"
        host, port = str(address.hostname), address.port
        if address.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=_context(self.ca))
        else:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(self.method, path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            return f"{self.url}: {error}"
        finally:
            connection.close()
        if answer.status != self.status:
            return f"{self.url}: HTTP status {answer.status}"
        dense = b"".join(body.split())
        missing = [text for text in self.contains if text.encode() not in dense]
        return f"{self.url}: the answer lacks {', '.join(missing)}" if missing else ""


@cache
def _context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)
