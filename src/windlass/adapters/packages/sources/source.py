"""What a repository of any kind can do, and what all kinds have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.text.documents import is_object
from windlass.ports.packages import Offer, Repository

_HUB: Final = frozenset({"docker.io", "index.docker.io"})
"""Names of Docker's own registry, which answers under another one."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One version in a repository.

    Attributes:
        version: exact.
        locator: where it is, in the words of its kind: a path, an address, a tag.
        digest: ``sha256:<hex>`` of the archive or manifest, empty where the repository does not tell before fetching.
    """

    version: str
    locator: str
    digest: str = ""


class PackageSource(Protocol):
    """One repository while it is being read."""

    async def versions(self, package: str) -> Sequence[Found]:
        """Return everything of one package; empty if there is no such package.

        Raises:
            PermanentError: DOWNLOAD_FAILED, this kind of repository lists nothing; whatever the transport raises.
        """
        ...

    async def find(self, package: str, version: str, digest: str) -> Found | None:
        """Return one exact version, None if it is not there; ``digest`` asks for that very archive or manifest."""
        ...

    async def fetch(self, package: str, found: Found, scratch: Path) -> Path:
        """Return the folder or archive of a version; an archive may be fetched into the empty folder ``scratch``.

        Raises:
            PermanentError: DIGEST_MISMATCH, SIGNATURE_INVALID, or an archive beyond the limits.
            TransientError: DOWNLOAD_FAILED, it breaks off.
        """
        ...

    async def scan(self, used: Sequence[str]) -> Sequence[Offer]:
        """Say what there is; see `ports.Packages.scan`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Remote:
    """Where a repository is: ``url`` as written, ``web`` what requests start with, without a slash at the end."""

    url: str
    web: str
    insecure: bool


def remote_of(repository: Repository) -> Remote:
    """Return the address of a repository that is no folder.

    Raises:
        PermanentError: DOWNLOAD_FAILED, the spec is wrong.
    """
    kind = str(repository.spec.get("kind"))
    section = repository.spec.get(kind)
    entry: Mapping[str, Any] = section if is_object(section) else {}
    url, insecure = entry.get("url"), entry.get("insecure") is True
    if not isinstance(url, str):
        refuse_spec(repository, f"spec.{kind}.url is missing")
    scheme, separator, rest = url.rstrip("/").partition("://")
    allowed = {"oci"} if kind == "oci" else {"https", "http"} if insecure else {"https"}
    if not separator or scheme not in allowed or not rest.partition("/")[0] or "@" in rest.partition("/")[0]:
        wanted = " or ".join(f"{one}://" for one in sorted(allowed))
        refuse_spec(repository, f"spec.{kind}.url does not start with {wanted} and a host (insecure: true admits http)")
    host, slash, path = rest.partition("/")
    if kind == "oci" and host in _HUB:
        rest = f"registry-1.docker.io{slash}{path}"
    web = f"{'http' if insecure else 'https'}://{rest}" if kind == "oci" else url.rstrip("/")
    return Remote(url=url.rstrip("/"), web=web, insecure=insecure)


def refuse_spec(repository: Repository, problem: str) -> NoReturn:
    """Raise what a wrong spec deserves."""
    raise PermanentError(
        Reason.DOWNLOAD_FAILED,
        f"repository {repository.name}: {problem}",
        hint="mend the PackageRepository",
        actor=Actor.ADMIN,
    )


def mismatch(repository: Repository, what: str, wanted: str, actual: str) -> PermanentError:
    """Return the error for an archive that is not what its repository or the Application says."""
    return PermanentError(
        Reason.DIGEST_MISMATCH,
        f"repository {repository.name}: {what} should have the digest {wanted} and has {actual}",
        hint="the archive was changed after it was published: publish another version, or mend the digest",
        actor=Actor.AUTHOR,
    )


def gone(repository: Repository, what: str) -> TransientError:
    """Return the error for something that the repository names and does not have."""
    return TransientError(
        Reason.DOWNLOAD_FAILED, f"repository {repository.name} does not have {what}", hint="publish it again"
    )
