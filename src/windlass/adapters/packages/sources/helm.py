"""Repositories of kind ``helm``: charts named in ``<url>/index.yaml``, as ``helm repo index`` writes it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from yarl import URL

from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources.indexes import Charts, Fetched, Indexes, Mark, Place
from windlass.adapters.packages.sources.source import Found, Remote, gone, mismatch, refuse_spec
from windlass.adapters.packages.sources.transport import Transport, host_of
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.wanted import canonical, in_order
from windlass.domain.text.documents import INDEX as INDEX_LIMITS
from windlass.domain.text.documents import DocumentError, is_list, is_object, parse_helm
from windlass.ports.packages import Offer, Repository

KIND: Final = "helm"
INDEX: Final = "index.yaml"
ANY_HOST: Final = "*"
"""Written into ``archiveHosts``: archives may be anywhere, as the `helm` program has it."""

_WANTED: Final = (
    frozenset({"entries"}),
    frozenset[str](),  # charts
    frozenset[str](),  # a chart's versions, a list
    frozenset({"version", "urls", "digest"}),
)
"""What is read of an index, by level; the rest of it (nine tenths) is scanned only."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")


def make(repository: Repository, transport: Transport, remote: Remote, limits: Limits, indexes: Indexes) -> HelmSource:
    """Build the source; ``remote`` is where the object says."""
    return HelmSource(repository, transport, remote.web, limits, indexes)


def hosts_of(repository: Repository, remote: Remote) -> frozenset[str] | None:
    """Return the hosts that a repository is read from: its own and those that it lists; None for any.

    Who writes an index chooses the addresses in it, and a worker reaches servers that the writer does not.
    """
    section = repository.spec.get(KIND)
    listed = section.get("archiveHosts") if is_object(section) else None
    named = {host.lower() for host in listed if isinstance(host, str)} if is_list(listed) else set[str]()
    return None if ANY_HOST in named else frozenset({host_of(URL(remote.web)), *named})


class HelmSource:
    """One Helm repository; its index comes from ``indexes`` where those have it."""

    def __init__(
        self, repository: Repository, transport: Transport, web: str, limits: Limits, indexes: Indexes
    ) -> None:
        self._repository = repository
        self._transport = transport
        self._web = web
        self._limits = limits
        self._indexes = indexes
        self._login = repository.access.login.authorization if repository.access.login else ""

    async def versions(self, package: str) -> Sequence[Found]:
        """Return what the index has of one chart; entries without address or version are passed over, as by Helm."""
        return (await self._index(anew=True)).get(package, ())

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return one version of the index."""
        known = _one(await self._index(anew=False), package, version)
        if known is None or (digest and known.digest and digest != known.digest):
            # It may have been published, or published again, since the index was read.
            known = _one(await self._index(anew=True), package, version)
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
        charts = await self._index(anew=True)
        for package in sorted(charts):
            found = charts[package]
            text = "\n".join(f"{one.version} {one.digest} {one.locator}" for one in found)
            digest = hashlib.sha256(text.encode()).hexdigest()[:32]
            offers.append(Offer(name=package, versions=tuple(one.version for one in found), digest=digest))
        return offers

    async def _index(self, *, anew: bool) -> Charts:
        place = Place(url=self._web, insecure=self._transport.insecure, access=self._repository.access)
        return await self._indexes.read(place, self._fetch_index, anew=anew)

    async def _fetch_index(self, known: Mark) -> Fetched:
        url = f"{self._web}/{INDEX}"
        limit = self._transport.limits.index
        answer = await self._transport.get(url, headers=known.validators, login=self._login, limit=limit)
        if answer.status == HTTPStatus.NOT_MODIFIED and known.validators:
            return Fetched(charts=None, mark=known)
        self._transport.check(answer.status, url, login=bool(self._login))
        if answer.status != HTTPStatus.OK:
            refuse_spec(self._repository, f"there is no {INDEX} at spec.helm.url")
        digest = await asyncio.to_thread(_digest, answer.body)
        mark = Mark(validators=_validators(answer.headers), digest=digest)
        if digest == known.digest:
            return Fetched(charts=None, mark=mark)
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
        charts = await asyncio.to_thread(_charts, entries if is_object(entries) else {}, self._web)
        return Fetched(charts=charts, mark=mark)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _charts(entries: Mapping[str, Any], web: str) -> Charts:
    """Return the charts of an index that have any version; the first entry of a version counts."""
    charts: dict[str, tuple[Found, ...]] = {}
    for package, listed in entries.items():
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
                    locator=urljoin(f"{web}/", url),
                    digest=f"sha256:{digest}" if _HEX.fullmatch(digest) else "",
                ),
            )
        if found:
            charts[package] = tuple(found[version] for version in in_order(found))
    return charts


def _one(charts: Charts, package: str, version: str) -> Found | None:
    return next((found for found in charts.get(package, ()) if found.version == version), None)


def _validators(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers of the next, conditional request."""
    if etag := headers.get("etag"):
        return {"If-None-Match": etag}
    modified = headers.get("last-modified")
    return {"If-Modified-Since": modified} if modified else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first(value: Any) -> str:
    return _text(value[0]) if is_list(value) and value else ""
