"""Repositories of kind ``http``: archives at addresses that follow from package and version; nothing is listed.

``url`` is a folder with ``<package>/<version>.tgz`` or ``<package>-<version>.tgz``, or an address with ``{package}``
and ``{version}`` in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote

from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources.source import Found, Remote, gone, mismatch, refuse_spec
from windlass.adapters.packages.sources.transport import Transport
from windlass.ports.packages import Offer, Repository

_FORMS: Final = ("{package}/{version}.tgz", "{package}-{version}.tgz")


def make(repository: Repository, transport: Transport, remote: Remote, limits: Limits) -> HttpSource:
    """Build the source; ``remote`` is where the object says."""
    return HttpSource(repository, transport, remote.web, limits)


class HttpSource:
    """One web server, below one address."""

    def __init__(self, repository: Repository, transport: Transport, web: str, limits: Limits) -> None:
        self._repository = repository
        self._transport = transport
        self._forms = (web,) if "{version}" in web else tuple(f"{web}/{form}" for form in _FORMS)
        self._web = web
        self._limits = limits
        self._login = repository.access.login.authorization if repository.access.login else ""

    async def versions(self, package: str) -> Sequence[Found]:
        """Refuse: a web server does not list its files."""
        refuse_spec(
            self._repository,
            f"kind http lists no versions, so none of {package} can be chosen: write an exact version, or use kind "
            f"helm with an index.yaml",
        )

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return the first address that is there."""
        for form in self._forms:
            url = form.replace("{package}", package).replace("{version}", quote(version))
            answer = await self._transport.request("HEAD", url, login=self._login)
            if answer.status in {HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}:
                return Found(version=version, locator=url, digest=digest)  # the fetch will tell
            self._check(answer.status, url)
            if answer.status == HTTPStatus.OK:
                return Found(version=version, locator=url, digest=digest)
        return None

    async def fetch(self, package: str, found: Found, scratch: Path) -> Path:
        """Fetch the archive."""
        archive = scratch / f"{package}-{found.version}.tgz"
        status, digest = await self._transport.download(
            found.locator, archive, login=self._login, limit=self._limits.packed
        )
        self._check(status, found.locator)
        if status != HTTPStatus.OK:
            raise gone(self._repository, f"{package} {found.version}")
        if found.digest and digest != found.digest:
            raise mismatch(self._repository, f"{package} {found.version}", found.digest, digest)
        return archive

    async def scan(self, used: Sequence[str]) -> Sequence[Offer]:
        """See that the server answers and takes the login; what it holds it does not say."""
        del used
        url = self._web.partition("{")[0]
        self._transport.check((await self._transport.request("HEAD", url, login=self._login)).status, url)
        return ()

    def _check(self, status: int, url: str) -> None:
        self._transport.check(status, url, login=bool(self._login))
