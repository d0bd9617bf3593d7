"""Repositories as package sources want them: the object, and what its Secrets hold at this moment."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from windlass.activities.inputs import IGNORED_ANNOTATIONS, Lookup, is_served, read_repository
from windlass.contracts.objects import SeenStatus
from windlass.contracts.repositories import PackageRepository
from windlass.domain.digests import canonical_json, keyed_digest
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import SYSTEM_NAMESPACE
from windlass.domain.packages.model import Source
from windlass.domain.packages.registry_login import Login, login_for
from windlass.domain.text.documents import DocumentError, parse_json
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.ports.packages import Access, Repository

DOCKER_CONFIG: Final = ".dockerconfigjson"


async def repository_for(kube: Kube, source: Source, namespace: str) -> Repository:
    """Return the repository of ``source``, for packages of ``namespace``, as package sources want it.

    Raises:
        TransientError: REPOSITORY_NOT_FOUND, SECRET_NOT_FOUND; they may still come.
        PermanentError: REPOSITORY_NOT_ALLOWED, it does not serve that namespace; UNAUTHORIZED or SIGNATURE_INVALID, a
            Secret does not hold what it should.
    """
    repository = await _found(kube, source)
    if not await is_served(kube.get, repository, namespace):
        raise PermanentError(
            Reason.REPOSITORY_NOT_ALLOWED,
            f"spec.package.repository: PackageRepository {source.repository!r} does not serve namespace {namespace!r}",
            hint="add the namespace to spec.allowedNamespaces of the PackageRepository, or name another repository",
            actor=Actor.ADMIN,
        )
    return await with_access(kube.get, repository)


async def repository_of_pinned(kube: Kube, source: Source) -> Repository:
    """Return the repository that a package's content was pinned from, to fetch that very content once more.

    It was served when the content was pinned. Who may use the repository today is not asked: a package that is no
    longer served keeps running on another worker, too, and can be removed with its own hooks.

    Raises:
        TransientError, PermanentError: as `repository_for`, but for REPOSITORY_NOT_ALLOWED.
    """
    return await with_access(kube.get, await _found(kube, source))


async def _found(kube: Kube, source: Source) -> PackageRepository:
    repository = await read_repository(kube.get, source.repository)
    if repository is None:
        raise TransientError(
            Reason.REPOSITORY_NOT_FOUND,
            f"spec.package.repository: there is no PackageRepository {source.repository!r}",
            hint="create it, or name one of `kubectl get packagerepositories`",
        )
    return repository


async def with_access(lookup: Lookup, repository: PackageRepository) -> Repository:
    """Return a repository with what its Secrets hold.

    Raises:
        TransientError, PermanentError: as `repository_for`.
    """
    name = repository.metadata.name
    secrets: dict[str, _Secret] = {}
    for secret in repository.spec.secrets:
        found = await lookup(secret_ref(secret))
        if found is None:
            raise TransientError(
                Reason.SECRET_NOT_FOUND,
                f"repository {name}: there is no Secret {secret} in {SYSTEM_NAMESPACE}",
                hint="create it, or mend the PackageRepository",
            )
        secrets[secret] = _Secret(name, secret, found)
    return Repository(name=name, spec=repository.spec.to_object(), access=_access(repository, secrets))


async def secrets_digest(lookup: Lookup, repository: PackageRepository, key: bytes) -> str:
    """Return a keyed digest of all that the repository's Secrets hold, whether they are there and right or not."""
    data: dict[str, Any] = {}
    for name in repository.spec.secrets:
        found = await lookup(secret_ref(name))
        data[name] = (found or {}).get("data")
    return keyed_digest("repository", canonical_json(data), key)


async def seen_of(lookup: Lookup, repository: PackageRepository, key: bytes) -> SeenStatus:
    """Return the mark by which the watcher knows that a scan has taken notice of the object and its Secrets."""
    metadata = repository.metadata
    annotations = {k: v for k, v in metadata.annotations.items() if k not in IGNORED_ANNOTATIONS}
    content = [annotations, await secrets_digest(lookup, repository, key)]
    return SeenStatus(
        uid=metadata.uid,
        generation=metadata.generation,
        deletion_timestamp=metadata.deletion_timestamp,
        digest=keyed_digest("repository-seen", canonical_json(content), key),
    )


def secret_ref(name: str) -> ObjectRef:
    """Return where a repository's Secret lives."""
    return ObjectRef(api_version="v1", kind="Secret", namespace=SYSTEM_NAMESPACE, name=name)


class _Secret:
    """The data of one Secret, decoded; faults name the key, never what stands there."""

    def __init__(self, repository: str, name: str, obj: Object) -> None:
        self._where = f"repository {repository}: Secret {name} in {SYSTEM_NAMESPACE}"
        self._data: Mapping[str, str] = obj.get("data") or {}

    def get(self, key: str) -> bytes:
        """Return what stands under a key, nothing if it is missing."""
        try:
            return base64.b64decode(self._data.get(key, ""), validate=True)
        except binascii.Error:
            self.refuse(f"key {key}: is not base64")

    def text(self, key: str) -> str:
        """Return the text under a key."""
        try:
            return self.get(key).decode()
        except UnicodeDecodeError:
            self.refuse(f"key {key}: is not UTF-8")

    def refuse(self, problem: str, *, reason: Reason = Reason.UNAUTHORIZED) -> NoReturn:
        """Raise what a Secret that is of no use deserves."""
        raise PermanentError(reason, f"{self._where}, {problem}", hint="mend the Secret", actor=Actor.ADMIN)


def _access(repository: PackageRepository, secrets: Mapping[str, _Secret]) -> Access:
    remote, verify = repository.spec.remote, repository.spec.verify
    if remote is None:
        return Access()
    login = _login(secrets[remote.secret_ref.name], remote.url) if remote.secret_ref else None
    certificates = secrets[remote.cert_secret_ref.name] if remote.cert_secret_ref else None
    certificate = (certificates.get("tls.crt"), certificates.get("tls.key")) if certificates else (b"", b"")
    if certificates and bool(certificate[0]) != bool(certificate[1]):
        certificates.refuse("tls.crt and tls.key: one of them is missing")
    trusted: tuple[bytes, ...] = ()
    if verify is not None:
        reference = verify.key.secret_ref
        pem = secrets[reference.name].get(reference.key)
        if not pem:
            secrets[reference.name].refuse(f"key {reference.key}: is missing", reason=Reason.SIGNATURE_INVALID)
        trusted = (pem,)
    return Access(
        login=login,
        authorities=certificates.get("ca.crt") if certificates else b"",
        certificate=certificate if all(certificate) else None,
        trusted=trusted,
    )


def _login(secret: _Secret, url: str) -> Login:
    config = secret.text(DOCKER_CONFIG)
    if config:
        host = url.partition("://")[2].partition("/")[0]
        try:
            login = login_for(parse_json(config), host)
        except DocumentError:
            secret.refuse(f"key {DOCKER_CONFIG}: is not JSON")
        except ValueError as error:
            secret.refuse(f"key {DOCKER_CONFIG}: {error}")
        if login is None:
            secret.refuse(f"key {DOCKER_CONFIG}: has no login for {host}")
        return login
    found = Login(username=secret.text("username"), password=secret.text("password"), token=secret.text("token"))
    if found == Login():
        secret.refuse("keys username and password: are missing")
    return found
