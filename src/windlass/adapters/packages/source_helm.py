"""Repositories of kind ``helm``: charts named in ``<url>/index.yaml``, as ``helm repo index`` writes it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from windlass.adapters.packages.entries import Limits
from windlass.adapters.packages.source import Found, Remote, gone, mismatch, refuse_spec
from windlass.adapters.packages.transport import Transport
from windlass.domain.documents import INDEX as INDEX_LIMITS
from windlass.domain.documents import DocumentError, is_list, is_object, parse_helm
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.wanted import canonical, in_order
from windlass.ports.packages import Offer, Repository

INDEX: Final = "index.yaml"
_WANTED: Final = (
    frozenset({"entries"}),
    frozenset[str](),  # charts
    frozenset[str](),  # a chart's versions, a list
    frozenset({"version", "urls", "digest"}),
)
"""What is read of an index, by level; the rest of it (nine tenths) is scanned only."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")


def make(repository: Repository, transport: Transport, remote: Remote, limits: Limits) -> HelmSource:
    """Build the source; ``remote`` is where the object says."""
    return HelmSource(repository, transport, remote.web, limits)


class HelmSource:
    """One Helm repository; its index is read once."""

    def __init__(self, repository: Repository, transport: Transport, web: str, limits: Limits) -> None:
        self._repository = repository
        self._transport = transport
        self._web = web
        self._limits = limits
        self._login = repository.access.login.authorization if repository.access.login else ""
        self._entries: dict[str, Any] | None = None

    async def versions(self, package: str) -> Sequence[Found]:
        """Return what the index has of one chart; entries without address or version are passed over, as by Helm."""
        listed = (await self._index()).get(package)
        found: dict[str, Found] = {}
        for entry in listed if is_list(listed) else []:
            if not is_object(entry):
                continue
            version, url, digest = _text(entry.get("version")), _first(entry.get("urls")), _text(entry.get("digest"))
            exact = canonical(version)
            if exact is None or not url:
                continue
            digest = digest.removeprefix("sha256:")
            found.setdefault(
                exact,
                Found(
                    version=exact,
                    locator=urljoin(f"{self._web}/", url),
                    digest=f"sha256:{digest}" if _HEX.fullmatch(digest) else "",
                ),
            )
        return [found[version] for version in in_order(found)]

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return one version of the index."""
        known = next((found for found in await self.versions(package) if found.version == version), None)
        if known is not None and digest and known.digest and digest != known.digest:
            raise mismatch(self._repository, f"{package} {version}", digest, known.digest)
        return Found(version=known.version, locator=known.locator, digest=digest or known.digest) if known else None

    async def fetch(self, package: str, found: Found, scratch: Path) -> Path:
        """Fetch the archive and hold it against the digest in the index."""
        if not found.locator.startswith("https://" if not self._transport.insecure else ("https://", "http://")):
            refuse_spec(self._repository, f"{INDEX} names an address of {package} that is not https")
        archive = scratch / f"{package}-{found.version}.tgz"
        status, digest = await self._transport.download(
            found.locator, archive, login=self._login, limit=self._limits.packed
        )
        self._transport.check(status, found.locator, login=bool(self._login))
        if status != HTTPStatus.OK:
            raise gone(self._repository, f"the archive of {package} {found.version}")
        if found.digest and digest != found.digest:
            raise mismatch(self._repository, f"{package} {found.version}", found.digest, digest)
        return archive

    async def scan(self, used: Sequence[str]) -> Sequence[Offer]:
        """List the index; it names everything, so what is used but not in it is not there."""
        del used
        offers: list[Offer] = []
        for package in sorted(await self._index()):
            found = await self.versions(package)
            if found:
                text = "\n".join(f"{one.version} {one.digest} {one.locator}" for one in found)
                digest = hashlib.sha256(text.encode()).hexdigest()[:32]
                offers.append(Offer(name=package, versions=tuple(one.version for one in found), digest=digest))
        return offers

    async def _index(self) -> dict[str, Any]:
        if self._entries is None:
            url = f"{self._web}/{INDEX}"
            answer = await self._transport.get(url, login=self._login, limit=self._transport.limits.index)
            self._transport.check(answer.status, url, login=bool(self._login))
            if answer.status != HTTPStatus.OK:
                refuse_spec(self._repository, f"there is no {INDEX} at spec.helm.url")
            try:
                document = await asyncio.to_thread(parse_helm, answer.body, INDEX_LIMITS, typed=False, wanted=_WANTED)
            except DocumentError as error:
                raise PermanentError(
                    Reason.DOWNLOAD_FAILED,
                    f"repository {self._repository.name}: {INDEX} cannot be read: {error.message}",
                    hint="write it anew with `helm repo index`",
                    actor=Actor.AUTHOR,
                ) from None
            entries = document.get("entries") if is_object(document) else None
            if not is_object(entries) and (entries is not None or not is_object(document)):
                refuse_spec(self._repository, f"{INDEX} holds no mapping `entries`")
            self._entries = entries if is_object(entries) else {}
        return self._entries


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first(value: Any) -> str:
    return _text(value[0]) if is_list(value) and value else ""
