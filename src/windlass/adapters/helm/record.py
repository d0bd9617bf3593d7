"""How Helm writes a revision into a Secret: base64 of gzipped JSON (and base64 once more, as Secrets are)."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from windlass.adapters.helm import manifest
from windlass.adapters.helm.manifest import Entry
from windlass.domain.digests import canonical_json
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Values
from windlass.domain.text.documents import MANIFEST, DocumentError, is_list, is_object, parse_json
from windlass.domain.text.tree import merge
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Object

APPLIED: Final = "windlass.dev/applied"
"""Annotation of the stored chart that names the digest of chart and values it was made from."""

OWNER: Final = "windlass.dev/owner"
"""Annotation of the stored chart that names the package it was applied for. The package's account may write it, so it
keeps packages from getting into each other's way by mistake and protects nothing."""


_TEXT_MOST: Final = 200
"""Characters of a foreign text in a message."""

_BROKEN: Final = (AttributeError, KeyError, TypeError, ValueError, EOFError, zlib.error, DocumentError)
"""What reading a record that is none may raise."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One stored revision, decoded; ``deployed`` is when, as Helm writes it, ``description`` Helm's own words."""

    revision: int
    status: str
    applied: str
    owner: str
    chart: str
    chart_version: str
    entries: tuple[Entry, ...]
    has_hooks: bool
    deployed: str = ""
    description: str = ""
    manifest: str = ""


def decode(secret: Object) -> Record:
    """Read a release Secret.

    Raises:
        PermanentError: APPLY_MANIFESTS_FAILED, the record is damaged; names the Secret.
    """
    return record_of(content(secret), secret)


def record_of(content: Mapping[str, Any], secret: Object) -> Record:
    """Return the record that the unpacked `content` of a Secret is.

    Raises:
        PermanentError: as `decode`.
    """
    try:
        return _record(content)
    except _BROKEN as error:
        raise _damaged(secret) from error


def content(secret: Object) -> dict[str, Any]:
    """Return what a release Secret holds, decoded.

    Raises:
        PermanentError: as `decode`.
    """
    try:
        return _unpack(secret)
    except _BROKEN as error:
        raise _damaged(secret) from error


def signed(content: Mapping[str, Any], ref: ReleaseRef, revision: int) -> bytes:
    """Return what the digest of a record is made from: all that Helm or we go by when something is done to the release.

    What changes by itself is left out: status, times and words of the revision, and when its hooks ran last.

    Raises:
        ValueError: it is not a record of this revision of the release; says why.
    """
    # Helm leaves out what is empty.
    version, text, hooks = content.get("version"), content.get("manifest", ""), content.get("hooks")
    if isinstance(version, bool) or version != revision:
        raise ValueError("it holds another revision than its name says")
    if (content.get("name"), content.get("namespace")) != (ref.name, ref.namespace):
        raise ValueError("it holds a record of another release")
    if not isinstance(text, str) or not isinstance(_mapping(content.get("info")).get("status"), str):
        raise ValueError("it is not a record of Helm")  # noqa: TRY004 - one kind of failure for whatever is wrong with it
    if hooks is not None and not (is_list(hooks) and all(is_object(hook) for hook in hooks)):
        raise ValueError("it is not a record of Helm")
    chart = _mapping(_mapping(content.get("chart")).get("metadata"))
    lasting = [{key: value for key, value in hook.items() if key != "last_run"} for hook in hooks or []]
    annotations = _mapping(chart.get("annotations"))
    return canonical_json(
        {
            "name": ref.name,
            "namespace": ref.namespace,
            "version": revision,
            "manifest": text,
            "hooks": lasting,
            "chart": [chart.get("name"), chart.get("version"), annotations.get(APPLIED), annotations.get(OWNER)],
        }
    )


def owner_of(content: Mapping[str, Any]) -> str:
    """Return the package that a stored revision was applied for, as it says; empty if it says nothing."""
    chart = _mapping(_mapping(content.get("chart")).get("metadata"))
    return _plain(_mapping(chart.get("annotations")).get(OWNER, ""))


def chart_of(content: Mapping[str, Any]) -> str:
    """Return name and version of the stored chart, as text for people."""
    chart = _mapping(_mapping(content.get("chart")).get("metadata"))
    return f"chart {_plain(chart.get('name', '?'))} {_plain(chart.get('version', '?'))}"


def values_of(content: Mapping[str, Any]) -> Values:
    """Return the values that a stored revision was made with: the chart's own below those that were given."""
    own, given = _mapping(content.get("chart")).get("values"), content.get("config")
    return merge(own if is_object(own) else {}, given if is_object(given) else {})


def mark_failed(secret: Object, description: str) -> Object:
    """Return the Secret with its revision marked as failed, the word in its label included.

    Raises:
        PermanentError: as `decode`.
    """
    try:
        release = _unpack(secret)
        release["info"] = {**release["info"], "status": "failed", "description": description}
    except _BROKEN as error:
        raise _damaged(secret) from error
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode())))
    metadata: Mapping[str, Any] = secret["metadata"]
    return {
        **secret,
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), "status": "failed"}},
        "data": {**secret["data"], "release": packed.decode()},
    }


def _unpack(secret: Object) -> dict[str, Any]:
    raw = base64.b64decode(base64.b64decode(secret["data"]["release"], validate=True), validate=True)
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    text = inflate.decompress(raw, MANIFEST.size)
    if not inflate.eof:
        raise binascii.Error("cut short, or larger than any record Helm writes")
    found = parse_json(text, MANIFEST)
    if not is_object(found):
        raise TypeError("not a map")
    return found


def _record(release: Mapping[str, Any]) -> Record:
    chart = _mapping(_mapping(release.get("chart")).get("metadata"))
    annotations = _mapping(chart.get("annotations"))
    return Record(
        revision=int(release["version"]),
        status=str(release["info"]["status"]),
        applied=str(annotations.get(APPLIED, "")),
        owner=str(annotations.get(OWNER, "")),
        chart=str(chart.get("name", "")),
        chart_version=str(chart.get("version", "")),
        entries=manifest.parse(release.get("manifest") or ""),
        has_hooks=bool(release.get("hooks")),
        deployed=str(release["info"].get("last_deployed") or ""),
        description=str(release["info"].get("description") or ""),
        manifest=release.get("manifest") or "",
    )


def _plain(value: Any) -> str:
    """Return text of a foreign record that may stand in a message."""
    return "".join(one if one.isprintable() else "?" for one in str(value)[:_TEXT_MOST])


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _damaged(secret: Object) -> PermanentError:
    metadata: Mapping[str, Any] = secret["metadata"]
    return PermanentError(
        Reason.APPLY_MANIFESTS_FAILED,
        f"the stored Helm release in Secret {metadata.get('name')} in {metadata.get('namespace')} cannot be read",
        hint="delete that Secret: the release is then installed again over its own objects",
        actor=Actor.ADMIN,
    )
