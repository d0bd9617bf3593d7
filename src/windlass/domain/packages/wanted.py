"""What ``spec.package.version`` asks for, and which of the versions on offer answers it.

==========================  ====================================================================
written                     means
==========================  ====================================================================
``1.4.2``                   that version
``^1.4``, ``1.x``, ``*``    the newest version that the range admits (`windlass.domain.packages.versions`)
``1.4.2@sha256:<64 hex>``   that version, if its archive (Helm repository, HTTP) or its manifest (OCI) has this digest
==========================  ====================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from semver import Version

from windlass.domain.packages.versions import VersionRange, VersionRangeError, parse_exact, parse_version

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""How a digest is written."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One wish: either ``version`` (exact) or ``range``; ``digest`` may come with an exact version."""

    text: str
    version: str = ""
    range: VersionRange | None = None
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read a wish.

        Raises:
            VersionRangeError: it is none of the forms above.
        """
        version, at, digest = text.partition("@")
        if at:
            if DIGEST.fullmatch(digest) is None:
                raise VersionRangeError(f"{digest!r} is no digest: write sha256: and 64 hexadecimal digits")
            parse_exact(version)
            return cls(text=text, version=version, digest=digest)
        if is_exact(text):
            return cls(text=text, version=text)
        return cls(text=text, range=VersionRange.parse(text))


def is_exact(text: str) -> bool:
    """Say whether ``text`` is one version in its only spelling."""
    try:
        parse_exact(text)
    except VersionRangeError:
        return False
    return True


def is_floating(text: str) -> bool:
    """Say whether what ``text`` comes to may change by itself: whether it is a range."""
    return "@" not in text and not is_exact(text)


def canonical(text: str) -> str | None:
    """Return the only spelling of what a repository writes as ``v1.2.0`` or ``1.2``; None if it is no version."""
    try:
        return str(parse_version(text))
    except VersionRangeError:
        return None


def in_order(versions: Iterable[str]) -> list[str]:
    """Return exact versions, oldest first, each once."""
    return sorted(set(versions), key=_precedence)


def choose(wanted: Wanted, versions: Iterable[str]) -> str | None:
    """Return the newest of the exact ``versions`` that is admitted, None if none is."""
    if wanted.range is None:
        return wanted.version if wanted.version in set(versions) else None
    admitted = in_order(version for version in versions if wanted.range.contains(parse_exact(version)))
    return admitted[-1] if admitted else None


def newest(versions: Iterable[str]) -> str:
    """Return the newest release among exact versions, a pre-release only if there is nothing else; empty for none."""
    ordered = in_order(versions)
    releases = [version for version in ordered if not parse_exact(version).prerelease]
    return (releases or ordered or [""])[-1]


def _precedence(version: str) -> tuple[Version, str]:
    return parse_exact(version), version  # build metadata has no precedence: the text decides
