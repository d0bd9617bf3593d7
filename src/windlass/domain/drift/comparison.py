"""Drift: where the objects of a release are not what its manifest says, and what is to be done about it.

What is compared is a live object and the same object after a server-side apply of the manifest that was not kept
(`dryRun=All`). The API server has then defaulted and normalised both alike and merged lists by their keys: whatever
differs is a field that the manifest sets and somebody else has changed. Fields that the manifest leaves out, such as
the replicas of a scaled Deployment, never differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from windlass.domain.text.documents import is_list, is_object

LIMIT: Final = 3
WINDOW: Final = 600.0
"""A field that was put back `LIMIT` times within `WINDOW` seconds is fought over: it is left alone until the window has
moved on, so that a controller that writes it too never makes a loop."""

CORRECTIONS_KEPT: Final = 100
DIFFERENCES_KEPT: Final = 20
"""Differences that are told one by one; the rest is only counted."""

_MAINTAINED: Final = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"}
    | {"resourceVersion", "selfLink", "uid"}
)
"""Metadata that the API server keeps for itself."""

RELEASE_KIND: Final = "HelmRelease"
"""Stands for the release itself among the differences: somebody else has made a newer revision."""

_ABSENT: Final = object()


class Mode(StrEnum):
    """What is done about drift; values are wire values."""

    DETECT = "detect"
    CORRECT = "correct"
    OFF = "off"


class Change(StrEnum):
    """How an object or a field is not what the manifest says."""

    ABSENT = "absent"  # the object is gone
    CHANGED = "changed"
    REMOVED = "removed"  # the field is gone


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What an object says about drift.

    ``rules`` is a digest of the rules about what to ignore: the rules themselves are read where they are used.
    """

    mode: Mode = Mode.DETECT
    rules: str = ""
    maintenance: bool = False

    @property
    def restores(self) -> bool:
        """Whether absent objects are put back."""
        return self.mode is not Mode.OFF and not self.maintenance

    @property
    def corrects(self) -> bool:
        """Whether changed fields are put back."""
        return self.mode is Mode.CORRECT and not self.maintenance


@dataclass(frozen=True, kw_only=True, order=True)
class Difference:
    """One thing that is not as the manifest says. Never a value: it may be a secret.

    ``path`` is a JSON pointer (RFC 6901), empty for a whole object; ``manager`` is who wrote the field last, as far as
    the object's managedFields say.
    """

    kind: str
    namespace: str = ""
    name: str
    path: str = ""
    change: Change
    manager: str = ""

    @property
    def subject(self) -> str:
        """What differs, as people read it: ``Deployment/web /spec/replicas``."""
        return f"{self.kind}/{self.name} {self.path}".rstrip()

    @property
    def field(self) -> str:
        """The key by which corrections of one field are counted."""
        return f"{self.kind}/{self.namespace}/{self.name}{self.path}"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What to ignore: ``paths`` in objects that the other fields select; ``*`` is a wildcard, empty selects all."""

    kind: str = ""
    group: str = ""
    name: str = ""
    namespace: str = ""
    paths: tuple[str, ...]

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Say whether the rule is about ``obj``."""
        metadata: Mapping[str, Any] = obj.get("metadata") or {}
        group = str(obj.get("apiVersion") or "").rpartition("/")[0]
        wanted = (
            (self.kind, str(obj.get("kind") or "")),
            (self.group, group),
            (self.name, str(metadata.get("name") or "")),
            (self.namespace, str(metadata.get("namespace") or "")),
        )
        return all(not pattern or fnmatchcase(value, pattern) for pattern, value in wanted)


@dataclass(frozen=True, kw_only=True)
class Correction:
    """A field was put back; ``at`` is in seconds since the epoch."""

    field: str
    at: float


def rules_digest(rules: Iterable[Rule]) -> str:
    """Return what tells two lists of rules apart; empty for none."""
    told = [(one.kind, one.group, one.name, one.namespace, one.paths) for one in rules]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16] if told else ""


def tokens(path: str) -> tuple[str, ...]:
    r"""Split a path into its members: a JSON pointer if it starts with ``/``, else dotted.

    ``/spec/replicas``, ``spec.replicas``, ``metadata.annotations.example\.com/x`` (a backslash takes the dot's
    meaning away), ``spec.template.spec.containers.*.image``.

    Raises:
        ValueError: it is empty, or a member is.
    """
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    else:
        parts = [part.replace("\0", ".") for part in path.replace("\\.", "\0").split(".")]
    if not all(parts):
        raise ValueError(f"{path!r} is no path: write /spec/replicas or spec.replicas")
    return tuple(parts)


def pointer(parts: Sequence[str]) -> str:
    """Return members as a JSON pointer."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


# -- comparing -------------------------------------------------------------------------------------------------------


def without_ignored(wanted: Mapping[str, Any], live: Mapping[str, Any], rules: Iterable[Rule]) -> dict[str, Any]:
    """Return ``wanted`` with what the rules ignore as it is in ``live``: there is no difference any more."""
    result: Any = dict(wanted)
    for rule in rules:
        if rule.selects(wanted):
            for path in rule.paths:
                result = _blended(result, live, tokens(path))
    return result


def differing(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[tuple[str, Change], ...]:
    """Return path and kind of every difference, by path; ``status`` and the server's own metadata do not count."""
    found = _walk(_comparable(live), _comparable(wanted), ())
    return tuple(sorted((pointer(path), change) for path, change in found))


def merge_patch(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7396) that makes ``live`` into ``wanted``; empty if nothing differs."""
    return _patch(_comparable(live), _comparable(wanted))


def without_nulls(value: Any) -> Any:
    """Leave out members that are null: for Kubernetes they are not there, server-side apply takes them for values."""
    if is_object(value):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if is_list(value):
        return [without_nulls(one) for one in value]
    return value


def approximated(live: Any, expected: Any) -> Any:
    """Return what the manifest makes of ``live``, worked out without the API server.

    For objects whose manifest it refuses to apply, for instance because of a field that it does not know: members that
    the live object lacks are taken for such, and lists of another length for what somebody else completed.
    """
    if is_object(live) and is_object(expected):
        return {key: approximated(value, expected[key]) if key in expected else value for key, value in live.items()}
    if is_list(live) and is_list(expected):
        pairs = _paired(live, expected)
        return live if pairs is None else [approximated(before, after) for before, after in pairs]
    if live is _ABSENT or type(live) is not type(expected):
        return expected if live is _ABSENT else live
    return expected


def is_expendable(obj: Mapping[str, Any]) -> bool:
    """Say whether the cluster itself deletes the object in the course of things: a Job with a time to live."""
    spec: Any = obj.get("spec")
    return obj.get("kind") == "Job" and is_object(spec) and spec.get("ttlSecondsAfterFinished") is not None


def manager_of(live: Mapping[str, Any], path: str) -> str:
    """Return who owns a field, as managedFields say; empty if nobody does. The newest owner wins.

    The keys of list items are not looked into: for a field below a list, the owner of something in that list.
    """
    best: tuple[int, str, str] = (0, "", "")
    metadata: Mapping[str, Any] = live.get("metadata") or {}
    entries: list[Mapping[str, Any]] = metadata.get("managedFields") or []
    for entry in entries:
        depth = _depth(entry.get("fieldsV1"), tokens(path) if path else ())
        named = str(entry.get("manager") or "")
        via = entry.get("subresource")
        best = max(best, (depth, str(entry.get("time") or ""), f"{named} ({via})" if via else named))
    return best[2] if best[0] else ""


def digest(differences: Iterable[Difference]) -> str:
    """Return what tells two lists of differences apart, whoever made them; empty for none."""
    told = sorted((one.kind, one.namespace, one.name, one.path, one.change.value) for one in differences)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16] if told else ""


# -- fights ----------------------------------------------------------------------------------------------------------


def held(corrections: Iterable[Correction], now: float) -> dict[str, float]:
    """Return the fields that are fought over, and when each may be put back again."""
    times: dict[str, list[float]] = {}
    for correction in corrections:
        if correction.at > now - WINDOW:
            times.setdefault(correction.field, []).append(correction.at)
    return {field: sorted(at)[-LIMIT] + WINDOW for field, at in times.items() if len(at) >= LIMIT}


def remembered(corrections: Iterable[Correction], more: Iterable[str], now: float) -> tuple[Correction, ...]:
    """Return the corrections that still count, with ``more`` fields put back now."""
    recent = [correction for correction in corrections if correction.at > now - WINDOW]
    return (*recent, *(Correction(field=field, at=now) for field in sorted(set(more))))[-CORRECTIONS_KEPT:]


# -- inside ----------------------------------------------------------------------------------------------------------


def _comparable(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata: Mapping[str, Any] = obj.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _MAINTAINED}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": kept}


def _walk(live: Any, wanted: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Change]]:
    if live is _ABSENT:
        yield path, Change.REMOVED
    elif is_object(live) and is_object(wanted):
        for key in live.keys() | wanted.keys():
            if key not in wanted:
                yield (*path, key), Change.CHANGED  # something was added where the manifest owns the whole
            else:
                yield from _walk(live.get(key, _ABSENT), wanted[key], (*path, key))
    elif is_list(live) and is_list(wanted) and (pairs := _paired(live, wanted)) is not None:
        for index, (before, after) in enumerate(pairs):
            yield from _walk(before, after, (*path, str(index)))
    elif not _same(live, wanted):
        yield path, Change.CHANGED


def _same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are equal; to Python true is also 1."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _paired(live: list[Any], wanted: list[Any]) -> list[tuple[Any, Any]] | None:
    """Pair the items of two lists, in the order of ``wanted``; None if they can only be compared as a whole."""
    by_name = _named(live)
    if by_name is not None and (names := _named(wanted)) is not None and by_name.keys() <= names.keys():
        return [(by_name.get(name, _ABSENT), item) for name, item in names.items()]
    return list(zip(live, wanted, strict=True)) if len(live) == len(wanted) else None


def _named(items: list[Any]) -> dict[str, Any] | None:
    """Return items by their ``name``, None unless each has one of its own."""
    named = {str(item["name"]): item for item in items if is_object(item) and "name" in item}
    return named if len(named) == len(items) else None


def _patch(live: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in live if key not in wanted}
    for key, value in wanted.items():
        before = live.get(key, _ABSENT)
        if _same(before, value):
            continue
        if is_object(before) and is_object(value):
            if nested := _patch(before, value):
                patch[key] = nested
        else:
            patch[key] = value
    return patch


def _blended(wanted: Any, live: Any, path: tuple[str, ...]) -> Any:
    """Return ``wanted`` with what lies at ``path`` taken from ``live``; `_ABSENT` if it is not there."""
    if not path:
        return live
    head, rest = path[0], path[1:]
    if is_object(wanted):
        beside = live if is_object(live) else {}
        keys = wanted.keys() | beside.keys() if head == "*" else {head}
        out = dict(wanted)
        for key in keys:
            value = _blended(out.get(key, _ABSENT), beside.get(key, _ABSENT), rest)
            if value is _ABSENT:
                out.pop(key, None)
            else:
                out[key] = value
        return out
    if is_list(wanted) and is_list(live):
        pairs = _paired(live, wanted)
        if pairs is None:
            return wanted
        items = [
            _blended(item, before, rest) if head in {"*", str(index)} else item
            for index, (before, item) in enumerate(pairs)
        ]
        return [item for item in items if item is not _ABSENT]
    return wanted


def _depth(fields: Any, path: tuple[str, ...]) -> int:
    """Return how many members of ``path`` an owner's fields cover; 0 unless they reach the field or a list above it."""
    depth = 0
    for part in path:
        if not is_object(fields):
            return 0
        if not fields:
            return depth  # owned as a whole
        below = fields.get(f"f:{part}", _ABSENT)
        if below is _ABSENT:
            in_list = part.isdecimal() and any(key.startswith(("k:", "v:", "i:")) for key in fields)
            return depth if in_list else 0
        depth, fields = depth + 1, below
    return depth
