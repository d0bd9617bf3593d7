"""Values patches of hooks: JSON patches (RFC 6902) that accumulate, compacted, over a package's life.

Rules: hooks.md section 8, deckhouse.md section 5. Hooks may ``add``, ``remove``, ``test``, ``move`` and ``copy`` below
``/<package key>``. A new patch is applied strictly. What is kept of it are ``add`` and ``remove`` only (``move`` and
``copy`` are resolved to the values they moved, ``test`` leaves nothing), and those are replayed leniently whenever
values are computed again: an operation whose place is not there any more is passed over.

Elements of lists are addressed by position, which means little on a list that has changed meanwhile. They are kept the
way the protocol keeps them, the last operation for each path, and appends (``/-``) once for each value; so a hook that
appends the same value in each run does not make the list grow. What was accepted is what a replay gives, not what
the strict application gave.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import jsonpatch
import jsonpointer

from windlass.domain.digests import canonical_json
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.packages.model import Values
from windlass.domain.text.tree import MAX_DEPTH, deeper_than

MAX_STORED: Final = 256 * 1024
"""Bytes of all operations kept for one package, as JSON: they share one Secret (1 MiB) with the settings."""

_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("value",),
    "remove": (),
    "test": ("value",),
    "move": ("from",),
    "copy": ("from",),
}

type Operation = dict[str, Any]
"""``{"op": "add", "path": "/webapp/replicas", "value": 3}`` or ``{"op": "remove", "path": …}``."""


@dataclass(frozen=True, kw_only=True)
class PatchOutcome:
    """What accepting a patch comes to.

    Attributes:
        stored: all operations to keep from now on; those given when nothing changed.
        values: the values with them.
        changed: whether the values are other ones than before.
    """

    stored: tuple[Operation, ...]
    values: Values
    changed: bool


def accept(
    base: Values, stored: Sequence[Operation], patch: Sequence[Mapping[str, Any]], *, root: str, reason: Reason
) -> PatchOutcome:
    """Apply a hook's new patch on top of the stored ones.

    The caller validates the outcome's values before it keeps them.

    Args:
        base: values below the patches, without the package's key on top.
        stored: operations kept so far.
        patch: what the hook wrote.
        root: the package's camelCase key; every path must be this key or below it.
        reason: of the errors raised; depends on the hook's binding.

    Raises:
        PermanentError: the patch is malformed, leaves its root, uses ``replace``, or there is too much to keep.
        TransientError: it does not fit the values as they are: a missing path, a failed test.
    """
    for index, operation in enumerate(patch):
        problem = _form_problem(operation, root)
        if problem:
            raise PermanentError(
                reason, f"values patch, operation {index}: {problem}", hint="mend the hook", actor=Actor.AUTHOR
            )
    before = replay(base, stored, root=root)
    applied = _apply_strictly(before, patch, root=root, reason=reason)
    kept = compact((*stored, *applied))
    size = len(canonical_json(kept))
    if size > MAX_STORED:
        raise PermanentError(
            reason,
            f"values patches of {root}: {len(kept)} operations with {size} bytes are too much to keep "
            f"(at most {MAX_STORED} bytes)",
            hint="let the hook keep large content in a ConfigMap or Secret and patch its name into the values",
            actor=Actor.AUTHOR,
        )
    after = replay(base, kept, root=root)
    if canonical_json(after) == canonical_json(before):
        return PatchOutcome(stored=tuple(stored), values=before, changed=False)
    return PatchOutcome(stored=kept, values=after, changed=True)


def replay(base: Values, stored: Iterable[Operation], *, root: str) -> Values:
    """Return ``base`` with the stored operations applied; those whose place does not exist are passed over."""
    document: Values = {root: copy.deepcopy(base)}
    for operation in stored:
        try:
            _apply(document, operation)
        except _MISFITS:
            continue
    return cast("Values", document[root])


def compact(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the fewest operations with the same effect on objects, sorted by path.

    The last operation for each path stays, and an operation drops all earlier ones below its path. Operations on the
    elements of one list keep their order; appends stay once for each value.
    """
    kept: dict[tuple[str, bytes], Operation] = {}
    for operation in operations:
        path: str = operation["path"]
        append = operation["op"] == "add" and path.endswith("/-")
        key = (path, canonical_json(operation["value"]) if append else b"")
        if append and key in kept:
            continue
        if not append:
            for other in [other for other in kept if other[0] == path or other[0].startswith(path + "/")]:
                del kept[other]
        kept[key] = operation
    return tuple(sorted(kept.values(), key=_object_path))


def _object_path(operation: Operation) -> tuple[str, ...]:
    """Return the path up to the first part that may be a position in a list."""
    parts: list[str] = []
    for part in cast("str", operation["path"]).split("/"):
        if part == "-" or part.isdecimal():
            break
        parts.append(part)
    return tuple(parts)


# -- form ------------------------------------------------------------------------------------------------------------


def _form_problem(operation: Mapping[str, Any], root: str) -> str:
    """Return what is wrong with one operation, whatever the values are; empty if nothing is. Never quotes values."""
    op = operation.get("op")
    if op == "replace":
        return "replace is not allowed; use add, which replaces what is there"
    if not isinstance(op, str) or op not in _NEEDS:
        return f"op must be one of {', '.join(_NEEDS)}"
    missing = [name for name in ("path", *_NEEDS[op]) if name not in operation]
    if missing:
        return f"{op} needs {' and '.join(missing)}"
    for name in ("path", "from"):
        if name in operation:
            problem = _path_problem(operation[name], root)
            if problem:
                return f"{op}: {name} {problem}"
    if operation["path"] == f"/{root}" and op == "remove":
        return f"remove: /{root} itself cannot be removed"
    if operation.get("from") == f"/{root}" and op == "move":
        return f"move: /{root} itself cannot be moved"
    return _value_problem(operation.get("value"))


def _path_problem(path: Any, root: str) -> str:
    if not isinstance(path, str):
        return "must be text"
    if path != f"/{root}" and not path.startswith(f"/{root}/"):
        return f"must be /{root} or below it"
    if path.count("/") > MAX_DEPTH:
        return f"has more than {MAX_DEPTH} parts"
    try:
        jsonpointer.JsonPointer(path)
    except jsonpointer.JsonPointerException:
        return "is no JSON pointer; write ~0 for ~ and ~1 for /"
    return ""


def _value_problem(value: Any) -> str:
    if deeper_than(value):
        return f"its value is nested more than {MAX_DEPTH} levels deep"
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return "its value is not JSON (NaN and infinities are not)"
    return ""


# -- application -----------------------------------------------------------------------------------------------------

_MISFITS = (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException)


def _apply_strictly(
    values: Values, patch: Sequence[Mapping[str, Any]], *, root: str, reason: Reason
) -> list[Operation]:
    """Apply each operation in turn; return what they did as ``add`` and ``remove`` operations."""
    document: Values = {root: copy.deepcopy(values)}
    done: list[Operation] = []
    for index, operation in enumerate(patch):
        try:
            effects = _resolve(document, operation)
            for effect in effects:
                _apply(document, effect)
        except _MISFITS as error:
            raise TransientError(
                reason,
                f"values patch, operation {index}: {operation['op']} {operation['path']} does not fit the values "
                f"({'the test failed' if operation['op'] == 'test' else 'the place does not exist'})",
                hint="the hook runs again; if this stays, it patches values it does not have",
            ) from error
        if not isinstance(document[root], dict):
            raise PermanentError(
                reason,
                f"values patch, operation {index}: /{root} must stay an object",
                hint="mend the hook",
                actor=Actor.AUTHOR,
            )
        done.extend(effects)
    return done


def _resolve(document: Values, operation: Mapping[str, Any]) -> list[Operation]:
    match operation["op"]:
        case "test":
            _apply(document, dict(operation))
            return []
        case "move" | "copy" as op:
            source: str = operation["from"]
            value = copy.deepcopy(jsonpointer.resolve_pointer(document, source))
            add = {"op": "add", "path": operation["path"], "value": value}
            return [{"op": "remove", "path": source}, add] if op == "move" else [add]
        case "add":
            return [{"op": "add", "path": operation["path"], "value": copy.deepcopy(operation["value"])}]
        case _:
            return [{"op": "remove", "path": operation["path"]}]


def _apply(document: Values, operation: Operation) -> None:
    # A copy, since what the document holds is changed by later operations, and stored operations must not be.
    jsonpatch.JsonPatch([copy.deepcopy(operation)]).apply(document, in_place=True)
