"""Keyed digests of content that may hold secrets.

Digests stand in workflow histories, status and search results. Values can hold passwords with little entropy, which a
plain hash would let anybody guess; an HMAC under the installation's own key tells outsiders nothing but "changed".
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

from windlass.domain.packages.model import Values

KEY_MIN: Final = 16
"""Bytes of a digest key at least: 128 bits, the strength HMAC-SHA256 is used for here."""


def canonical_json(content: Any) -> bytes:
    """Return ``content`` as JSON bytes that depend on nothing but its value: sorted keys, no spaces, UTF-8.

    Raises:
        TypeError: it holds something that is not JSON (a date, bytes).
        ValueError: it holds NaN or an infinity.
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(
        errors="surrogatepass"
    )


def keyed_digest(purpose: str, content: bytes, key: bytes) -> str:
    """Return 64 hex digits: HMAC-SHA256 of ``content`` under ``key``.

    ``purpose`` keeps digests of different things apart: one kind of digest never stands in for another.

    Raises:
        ValueError: the key has fewer than `KEY_MIN` bytes.
    """
    if len(key) < KEY_MIN:
        raise ValueError(f"the digest key has {len(key)} bytes; it needs at least {KEY_MIN}")
    return hmac.new(key, purpose.encode() + b"\0" + content, hashlib.sha256).hexdigest()


def content_digest(content: Any, key: bytes) -> str:
    """Return the keyed digest of one JSON value; key order does not matter, list order does."""
    return keyed_digest("content", canonical_json(content), key)


def settings_digest(spec_settings: Values, values_from: Values, key: bytes) -> str:
    """Return the digest of what a user wants: the settings in the spec and what ``valuesFrom`` resolved to."""
    return keyed_digest("settings", canonical_json([spec_settings, values_from]), key)


def seen_digest(
    annotations: Mapping[str, str],
    sources: Mapping[str, Mapping[str, str]],
    repositories: Mapping[str, Mapping[str, Any]],
    key: bytes,
) -> str:
    """Return the digest of what a change notice compares besides uid, generation and deletionTimestamp.

    Args:
        annotations: of the object; a generation does not count their changes.
        sources: data of referenced objects, under ``Secret/<name>`` or ``ConfigMap/<name>``; missing ones left out.
        repositories: specs of referenced repositories, under their names.
        key: the installation's digest key.
    """
    return keyed_digest("seen", canonical_json([dict(annotations), _plain(sources), _plain(repositories)]), key)


def _plain(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: dict(part) for name, part in parts.items()}
