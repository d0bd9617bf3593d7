"""The OCI distribution API (specification 1.1): manifests, blobs, tags and the catalog, with the token flow.

Of the clients in Python none is async and checks digests and sizes while it streams; what packages need of the API is
five requests. The token flow is that of Docker's registry (distribution.github.io/distribution/spec/auth/token).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

from windlass.adapters.packages.format.entries import MAX_PACKED
from windlass.adapters.packages.sources.transport import Answer, Transport
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.packages.registry_login import Login
from windlass.domain.packages.wanted import DIGEST
from windlass.domain.text.documents import ANSWER, DocumentError, is_list, is_object, parse_json

OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ACCEPTED: Final = ", ".join((OCI_MANIFEST, DOCKER_MANIFEST, *INDEXES))
_PARAMETER: Final = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_NEXT: Final = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?')
_PAGE: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A descriptor: what a manifest says of a blob."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One manifest as it came: its own digest, and the blobs it names."""

    digest: str
    config_type: str
    layers: tuple[Blob, ...]


class Registry:
    """Requests to one registry.

    Args:
        transport: to its host.
        base: ``https://host[:port]``.
        login: who we are; None to come without one.
    """

    def __init__(self, transport: Transport, base: str, login: Login | None) -> None:
        self._transport = transport
        self._base = base
        self._login = login
        self._authorization: dict[str, str] = {}

    @property
    def where(self) -> str:
        """How errors name the registry."""
        return self._transport.where

    async def manifest(self, name: str, reference: str) -> Manifest | None:
        """Read the manifest that a tag or digest names; None if there is none.

        Raises:
            PermanentError: DIGEST_MISMATCH, what comes is not what its digest says; DOWNLOAD_FAILED, it is no image
                manifest; UNAUTHORIZED.
            TransientError: DOWNLOAD_FAILED, the registry does not answer.
        """
        url = f"{self._base}/v2/{name}/manifests/{reference}"
        answer = await self._get(url, _pull(name), accept=_ACCEPTED)
        if answer.status != HTTPStatus.OK:
            return None
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        told = answer.headers.get("docker-content-digest", digest)
        wanted = reference if DIGEST.fullmatch(reference) else digest
        if wanted != digest or (told.startswith("sha256:") and told != digest):
            raise self._mismatch(f"the manifest {name}:{reference}", wanted if wanted != digest else told, digest)
        return self._parsed(f"{name}:{reference}", digest, answer.body)

    async def digest(self, name: str, reference: str) -> str:
        """Return the digest of a manifest without reading it; empty if there is none or the registry does not say."""
        url = f"{self._base}/v2/{name}/manifests/{reference}"
        answer = await self._request("HEAD", url, _pull(name), headers={"Accept": _ACCEPTED})
        return answer.headers.get("docker-content-digest", "") if answer.status == HTTPStatus.OK else ""

    async def fetch(self, name: str, blob: Blob, target: Path, *, limit: int) -> None:
        """Stream a blob into the new file ``target``.

        Raises:
            PermanentError: DIGEST_MISMATCH; ARCHIVE_REJECTED, it has more than ``limit`` bytes.
            TransientError: DOWNLOAD_FAILED, it is not there, or breaks off.
        """
        url = f"{self._base}/v2/{name}/blobs/{blob.digest}"
        bound = min(limit, blob.size)
        if blob.size > limit:
            raise PermanentError(
                Reason.ARCHIVE_REJECTED,
                f"{self.where}: {name} has {blob.size} bytes; at most {limit} are allowed in an archive",
                hint=f"publish less, or set {MAX_PACKED} of the workers higher",
                actor=Actor.AUTHOR,
            )
        # The token that the manifest was read with serves its blobs too, as long as it lasts.
        login = self._authorization.get(_pull(name), "")
        status, digest = await self._transport.download(url, target, login=login, limit=bound)
        if status == HTTPStatus.UNAUTHORIZED:
            await self._request("HEAD", url, _pull(name))
            login = self._authorization.get(_pull(name), "")
            status, digest = await self._transport.download(url, target, login=login, limit=bound)
        self._check(status, url)
        if status != HTTPStatus.OK:
            raise TransientError(
                Reason.DOWNLOAD_FAILED, f"{self.where}: {name} lacks the blob {blob.digest}", hint="push it again"
            )
        if digest != blob.digest:
            raise self._mismatch(f"a blob of {name}", blob.digest, digest)

    async def read(self, name: str, blob: Blob) -> bytes:
        """Return a small blob.

        Raises:
            PermanentError, TransientError: as `fetch`.
        """
        url = f"{self._base}/v2/{name}/blobs/{blob.digest}"
        answer = await self._get(url, _pull(name))
        if answer.status != HTTPStatus.OK:
            raise TransientError(
                Reason.DOWNLOAD_FAILED, f"{self.where}: {name} lacks the blob {blob.digest}", hint="push it again"
            )
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if digest != blob.digest:
            raise self._mismatch(f"a blob of {name}", blob.digest, digest)
        return answer.body

    async def referrers(self, name: str, digest: str, artifact_type: str) -> list[str]:
        """Return digests of manifests that refer to ``digest`` and whose artifact type starts with ``artifact_type``.

        Registries without the call for it keep the list under a tag (specification 1.1, "referrers tag schema"). Of
        several pages the first is read.

        Raises:
            TransientError, PermanentError: as `manifest`.
        """
        answer = await self._get(f"{self._base}/v2/{name}/referrers/{digest}", _pull(name), accept=INDEXES[0])
        if answer.status != HTTPStatus.OK:
            tag = digest.replace(":", "-")
            answer = await self._get(f"{self._base}/v2/{name}/manifests/{tag}", _pull(name), accept=INDEXES[0])
        index = _json(answer.body) if answer.status == HTTPStatus.OK else None
        listed = index.get("manifests") if is_object(index) else None
        found = [entry for entry in listed if is_object(entry)] if is_list(listed) else []
        return [
            entry["digest"]
            for entry in found
            if str(entry.get("artifactType", "")).startswith(artifact_type)
            and DIGEST.fullmatch(str(entry.get("digest", "")))
        ]

    async def tags(self, name: str) -> list[str]:
        """Return all tags of a repository; none if it does not exist."""
        return await self._pages(f"{self._base}/v2/{name}/tags/list?n={_PAGE}", _pull(name), "tags")

    async def names(self) -> list[str] | None:
        """Return the names of all repositories, None if the registry does not list them (most public ones do not)."""
        try:
            return await self._pages(f"{self._base}/v2/_catalog?n={_PAGE}", "registry:catalog:*", "repositories")
        except PermanentError as error:
            if error.reason is Reason.UNAUTHORIZED or error.reason is Reason.DOWNLOAD_FAILED:
                return None
            raise

    async def ping(self) -> None:
        """See that the registry answers and takes the login.

        Raises:
            TransientError, PermanentError: as `manifest`.
        """
        await self._get(f"{self._base}/v2/", "")

    async def push_blob(self, name: str, content: bytes | Path, digest: str) -> None:
        """Store a blob unless it is there.

        Raises:
            TransientError, PermanentError: as `manifest`.
        """
        scope = f"repository:{name}:pull,push"
        there = await self._request("HEAD", f"{self._base}/v2/{name}/blobs/{digest}", scope)
        if there.status == HTTPStatus.OK:
            return
        begun = await self._request("POST", f"{self._base}/v2/{name}/blobs/uploads/", scope)
        place = urljoin(begun.url, begun.headers.get("location", ""))
        if begun.status != HTTPStatus.ACCEPTED or not place.startswith(f"{self._base}/"):
            raise self._refused(f"an upload to {name}", begun.status)
        url = f"{place}{'&' if urlsplit(place).query else '?'}digest={quote(digest)}"
        headers = {"Content-Type": "application/octet-stream"}
        done = await self._request("PUT", url, scope, headers=headers, data=content)
        if done.status != HTTPStatus.CREATED:
            raise self._refused(f"a blob of {name}", done.status)

    async def push_manifest(self, name: str, tag: str, manifest: Mapping[str, Any]) -> str:
        """Store a manifest, of the media type that it names or an image's, under a tag; return its digest.

        Raises:
            TransientError, PermanentError: as `manifest`.
        """
        body = json.dumps(manifest, separators=(",", ":")).encode()
        url = f"{self._base}/v2/{name}/manifests/{tag}"
        headers = {"Content-Type": str(manifest.get("mediaType", OCI_MANIFEST))}
        done = await self._request("PUT", url, f"repository:{name}:pull,push", headers=headers, data=body)
        if done.status != HTTPStatus.CREATED:
            raise self._refused(f"{name}:{tag}", done.status)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    # -- requests ------------------------------------------------------------------------------------------------

    async def _get(self, url: str, scope: str, accept: str = "*/*") -> Answer:
        return await self._request("GET", url, scope, headers={"Accept": accept})

    async def _request(
        self,
        method: str,
        url: str,
        scope: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | Path | None = None,
    ) -> Answer:
        """Ask; if the registry wants to know who we are, say so and ask once more."""
        login = self._authorization.get(scope, "")
        answer = await self._transport.request(method, url, headers=headers, login=login, data=data)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            login = self._authorization[scope] = await self._authorize(answer, scope)
            if login:
                answer = await self._transport.request(method, url, headers=headers, login=login, data=data)
                if answer.status == HTTPStatus.UNAUTHORIZED:
                    self._refuse_token(answer, scope)
        self._check(answer.status, url)
        return answer

    def _check(self, status: int, url: str) -> None:
        self._transport.check(status, url, login=self._login is not None)

    def _refuse_token(self, answer: Answer, scope: str) -> None:
        """Raise what it means that a token is not taken (RFC 6750 section 3.1); pass if it was none."""
        found = _challenge(answer)[1].get("error")
        if found == "insufficient_scope":
            raise PermanentError(
                Reason.UNAUTHORIZED,
                f"{self.where}: the token that the registry's token service gave does not allow {scope or 'this'}",
                hint="give the user of secretRef that right, or name another one",
                actor=Actor.ADMIN,
            )
        if found == "invalid_token" and self._login and self._login.token:
            raise PermanentError(
                Reason.UNAUTHORIZED,
                f"{self.where}: the registry does not take the token of secretRef; it may have run out",
                hint="put a new one into the Secret, or a user and password that buy tokens",
                actor=Actor.ADMIN,
            )
        if found == "invalid_token":
            raise PermanentError(
                Reason.UNAUTHORIZED,
                f"{self.where}: the registry does not take the token that its own token service gave",
                hint="compare the clocks of both, and the key that the registry trusts; see the registry's log",
                actor=Actor.ADMIN,
            )

    async def _authorize(self, answer: Answer, scope: str) -> str:
        """Return the value of ``Authorization`` that a challenge asks for, empty if we have none."""
        scheme, given = _challenge(answer)
        if scheme == "basic":
            return self._login.basic if self._login else ""
        if scheme != "bearer":
            return ""
        if self._login and self._login.token:
            return f"Bearer {self._login.token}"
        return await self._token(given.get("realm", ""), given.get("service", ""), scope or given.get("scope", ""))

    async def _token(self, realm: str, service: str, scope: str) -> str:
        parts = urlsplit(realm)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._transport.insecure):
            raise PermanentError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: the registry sends us for a token to no https address",
                hint="mend the registry's token realm",
                actor=Actor.ADMIN,
            )
        asked = {name: value for name, value in (("service", service), ("scope", scope)) if value}
        place = self._transport.elsewhere(realm)
        if self._login and self._login.identity:
            form = {**asked, "grant_type": "refresh_token", "client_id": "windlass"}
            body = urlencode({**form, "refresh_token": self._login.identity}).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = await place.request("POST", realm, headers=headers, data=body)
        else:
            url = f"{realm}{'&' if parts.query else '?'}{urlencode(asked)}"
            answer = await place.get(url, login=self._login.basic if self._login else "")
        place.check(answer.status, realm, login=self._login is not None)
        found = _json(answer.body)
        token = (found.get("token") or found.get("access_token")) if is_object(found) else None
        if not isinstance(token, str):
            raise TransientError(Reason.DOWNLOAD_FAILED, f"{self.where}: the token service sends no token")
        return f"Bearer {token}"

    async def _pages(self, url: str, scope: str, field: str) -> list[str]:
        found: list[str] = []
        following = url
        while following and len(found) < self._transport.limits.versions:
            answer = await self._get(following, scope)
            if answer.status != HTTPStatus.OK:
                break
            page = _json(answer.body)
            listed = page.get(field) if is_object(page) else None
            found += [str(entry) for entry in listed] if is_list(listed) else []
            link = _NEXT.match(answer.headers.get("link", ""))
            after = urljoin(following, link[1]) if link else ""
            following = after if after.startswith(f"{self._base}/") and after != following and listed else ""
        return found

    # -- reading ---------------------------------------------------------------------------------------------------

    def _parsed(self, what: str, digest: str, body: bytes) -> Manifest:
        document = _json(body)
        layers = document.get("layers") if is_object(document) else None
        if not is_object(document) or not is_list(layers):
            kind = "an index of several images" if is_object(document) and "manifests" in document else "no manifest"
            raise PermanentError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: {what} is {kind}, not a package or chart",
                hint="push packages with `windlass package push` or `helm push`",
                actor=Actor.AUTHOR,
            )
        config = document.get("config")
        return Manifest(
            digest=digest,
            config_type=str(config.get("mediaType", "")) if is_object(config) else "",
            layers=tuple(self._blob(what, layer) for layer in layers),
        )

    def _blob(self, what: str, layer: Any) -> Blob:
        entry = layer if is_object(layer) else {}
        digest, size = entry.get("digest"), entry.get("size")
        annotations = entry.get("annotations")
        if not isinstance(digest, str) or DIGEST.fullmatch(digest) is None or not isinstance(size, int) or size < 0:
            raise PermanentError(
                Reason.DOWNLOAD_FAILED,
                f"{self.where}: {what} names a layer without a sha256 digest and a size",
                hint="push it again",
                actor=Actor.AUTHOR,
            )
        return Blob(
            media_type=str(entry.get("mediaType", "")),
            digest=digest,
            size=size,
            annotations={name: str(value) for name, value in annotations.items()} if is_object(annotations) else {},
        )

    def _mismatch(self, what: str, wanted: str, actual: str) -> PermanentError:
        return PermanentError(
            Reason.DIGEST_MISMATCH,
            f"{self.where}: {what} should have the digest {wanted} and has {actual}",
            hint="something between here and the registry changes what it sends, or the registry is damaged",
            actor=Actor.ADMIN,
        )

    def _refused(self, what: str, status: int) -> PermanentError:
        return PermanentError(
            Reason.DOWNLOAD_FAILED,
            f"{self.where}: the registry does not take {what} (status {status})",
            hint="see its log",
            actor=Actor.ADMIN,
        )


def _challenge(answer: Answer) -> tuple[str, dict[str, str]]:
    """Return the scheme, in small letters, and the parameters of ``WWW-Authenticate``."""
    scheme, _, rest = answer.headers.get("www-authenticate", "").partition(" ")
    return scheme.lower(), dict(_PARAMETER.findall(rest))


def _pull(name: str) -> str:
    return f"repository:{name}:pull"


def _json(body: bytes) -> Any:
    """Return the JSON in an answer, None if it is none: what then is missing is told by whoever looks for it."""
    try:
        return parse_json(body, ANSWER)
    except DocumentError:
        return None
