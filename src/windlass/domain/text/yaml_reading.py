"""Builds plain data from the events of a YAML text, within limits.

libyaml scans the text and reports events one by one, without recursion. (PyYAML's composer over it recurses in C for
each level of nesting and ends the process when the stack is full.) Nodes, characters and depth are counted event by
event. An alias counts as much as what it stands for, before anything is built from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from windlass.domain.text.document_limits import (
    DocumentError,
    DocumentTooLargeError,
    Limits,
    error_at,
    too_deep,
    too_many_nodes,
)
from windlass.domain.text.yaml_scalars import (
    MERGE,
    TAGS,
    Resolver,
    Scalar,
    ScalarError,
    key_text,
    resolve,
    resolve_key,
    resolve_tagged,
)

_TAG_DIRECTIVE: Final = re.compile(r"(?:^|[\n\r\x85\u2028\u2029])%TAG[ \t]")
_MOST_TAG_DIRECTIVES: Final = 64  # libyaml compares each with all others and each tag with all of them

type Wanted = Sequence[frozenset[str]]
"""For each level of nesting the keys that are built, an empty set for all; lists count as a level, too."""

type _Container = dict[str, Any] | list[Any]


@dataclass(slots=True)
class _Frame:
    """A collection whose end has not been reached."""

    container: _Container
    key: str | None = None
    merging: bool = False  # the value that comes next belongs to a merge key
    anchor: str | None = None
    nodes_before: int = 0
    text_before: int = 0
    explicit: set[str] | None = None  # keys written here, where repeated ones are refused


@dataclass(frozen=True, slots=True)
class _Anchor:
    """What an alias stands for, a collection or a scalar's event, and what it weighs."""

    collection: _Container | None
    scalar: ScalarEvent | None
    nodes: int
    text: int


@dataclass(slots=True)
class Budget:
    """What has been read so far; ``limits`` hold for all texts that are read with one budget."""

    limits: Limits
    nodes: int = 0
    characters: int = 0

    def spend(self, nodes: int, characters: int) -> None:
        """Count what is about to be built.

        Raises:
            DocumentTooLargeError: it exceeds the limits.
        """
        self.nodes += nodes
        self.characters += characters
        if self.nodes > self.limits.nodes:
            raise too_many_nodes(self.limits)
        if self.characters > self.limits.size:
            raise DocumentTooLargeError(f"has more than {self.limits.size} characters once aliases are expanded")


@dataclass(slots=True)
class _Reader:
    """Reads one text, or a part of one."""

    text: str
    budget: Budget
    resolver: Resolver
    wanted: Wanted
    unique: bool
    first_only: bool
    skipped: int = 0  # collections that are open in a value that is not wanted, and the value itself
    frames: list[_Frame] = field(default_factory=list[_Frame])
    anchors: dict[str, _Anchor | None] = field(default_factory=dict[str, _Anchor | None])
    documents: list[Any] = field(default_factory=list[Any])

    def run(self) -> list[Any]:
        parser = CParser(self.text)
        event: Event | None = None
        try:
            while True:
                event = cast("Event", parser.get_event())
                kind = type(event)
                if self.skipped:
                    self._skip(kind)
                elif kind is ScalarEvent:
                    self._scalar(event)
                elif kind is StreamEndEvent or (kind is DocumentEndEvent and self.first_only):
                    return self.documents
                else:
                    self._take(kind, event)
        except ScalarError as error:
            raise self._error(str(error), event) from None
        finally:
            parser.dispose()

    def _skip(self, kind: type[Event]) -> None:
        """Pass over a value that is not wanted."""
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            self.skipped += 1
            if len(self.frames) + self.skipped > self.budget.limits.depth:
                raise too_deep(self.budget.limits)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self.skipped -= 1
        if self.skipped == 1:
            self.skipped = 0

    def _take(self, kind: type[Event], event: Any) -> None:
        if kind is MappingStartEvent:
            self._open({}, event)
        elif kind is SequenceStartEvent:
            self._open([], event)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._close(event)
        elif kind is AliasEvent:
            self._alias(event)
        elif kind is DocumentStartEvent:
            self.anchors.clear()

    def _scalar(self, event: Any, *, alias: bool = False) -> None:
        text: str = event.value
        tag: str | None = event.tag
        plain: bool = event.implicit[0] and tag is None
        self.budget.spend(1, len(text))
        if event.anchor is not None and not alias:
            self.anchors[event.anchor] = _Anchor(None, event, 1, len(text))
        frame = self._awaiting_key()
        if frame is None:
            value = self.resolver(text) if plain else text if tag is None or tag == "!" else self._tagged(tag, text)
            self._add(value, event)
        elif text == MERGE and not alias and (plain or tag == f"{TAGS}merge"):
            frame.merging = True
        else:
            untagged = tag is None or tag == "!"
            key = resolve_key(text) if plain else text if untagged else key_text(self._tagged(tag or "", text))
            self._key(frame, key, event)

    def _tagged(self, tag: str, text: str) -> Scalar:
        return resolve_tagged(tag, text, self.resolver)

    def _awaiting_key(self) -> _Frame | None:
        """Return the innermost collection if it is a mapping that comes to its next key."""
        if not self.frames:
            return None
        frame = self.frames[-1]
        return frame if frame.key is None and not frame.merging and type(frame.container) is dict else None

    def _open(self, container: _Container, event: Any) -> None:
        self.budget.spend(1, 0)
        if len(self.frames) >= self.budget.limits.depth:
            raise too_deep(self.budget.limits)
        if self._awaiting_key() is not None:
            raise self._error("a key is no scalar", event)
        anchor: str | None = event.anchor
        if anchor is not None:
            self.anchors[anchor] = None  # an alias before its end would be a circle
        self.frames.append(
            _Frame(
                container,
                anchor=anchor,
                nodes_before=self.budget.nodes - 1,
                text_before=self.budget.characters,
                explicit=set() if self.unique and type(container) is dict else None,
            )
        )

    def _close(self, event: Any) -> None:
        frame = self.frames.pop()
        if frame.anchor is not None:
            nodes, text = self.budget.nodes - frame.nodes_before, self.budget.characters - frame.text_before
            self.anchors[frame.anchor] = _Anchor(frame.container, None, nodes, text)
        self._add(frame.container, event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            where = ", or it is in a part that is not read" if self.wanted else ""
            raise self._error(f"an alias names an anchor that does not exist{where}", event)
        anchor = self.anchors[event.anchor]
        if anchor is None:
            raise self._error("an anchor contains itself", event)
        if anchor.scalar is not None:
            self._scalar(anchor.scalar, alias=True)
            return
        self.budget.spend(anchor.nodes, anchor.text)
        if self._awaiting_key() is not None:
            raise self._error("a key is no scalar", event)
        if self.frames and self.frames[-1].merging and type(anchor.collection) is not dict:
            raise self._error("a merge key wants a mapping, or a list of mappings", event)
        self._add(self._copy(anchor.collection, len(self.frames)), event)

    def _copy(self, value: Any, depth: int) -> Any:
        if type(value) is dict:
            if depth >= self.budget.limits.depth:
                raise too_deep(self.budget.limits)
            return {key: self._copy(one, depth + 1) for key, one in cast("dict[str, Any]", value).items()}
        if type(value) is list:
            if depth >= self.budget.limits.depth:
                raise too_deep(self.budget.limits)
            return [self._copy(one, depth + 1) for one in cast("list[Any]", value)]
        return value

    def _key(self, frame: _Frame, key: str, event: Any) -> None:
        if frame.explicit is not None:
            if key in frame.explicit:
                raise self._error("a key stands twice in one mapping", event, key=key)
            frame.explicit.add(key)
        depth = len(self.frames) - 1
        if depth < len(self.wanted) and (names := self.wanted[depth]) and key not in names:
            self.skipped = 1
            return
        frame.key = key

    def _add(self, value: Any, event: Any) -> None:
        if not self.frames:
            self.documents.append(value)
            return
        frame = self.frames[-1]
        container = frame.container
        if type(container) is list:
            container.append(value)
            return
        mapping = cast("dict[str, Any]", container)
        if frame.merging:
            frame.merging = False
            self._merge(mapping, value, event)
        elif frame.key is not None:
            mapping[frame.key] = value
            frame.key = None

    def _merge(self, mapping: dict[str, Any], value: Any, event: Any) -> None:
        """Lay what a merge key names over the keys before it, as Helm does; of several mappings the first wins."""
        sources = cast("list[Any]", value) if type(value) is list else [value]
        for source in reversed(sources):
            if type(source) is not dict:
                raise self._error("a merge key wants a mapping, or a list of mappings", event)
            mapping.update(cast("dict[str, Any]", source))

    def _error(self, problem: str, event: Any, *, key: str = "") -> DocumentError:
        return error_at(self.text, event.start_mark.index if event is not None else 0, problem, key=key)


def check_directives(text: str) -> None:
    """Refuse a text whose tag directives would take libyaml quadratic time.

    Raises:
        DocumentTooLargeError: there are too many.
    """
    if len(_TAG_DIRECTIVE.findall(text)) > _MOST_TAG_DIRECTIVES:
        raise DocumentTooLargeError(f"has more than {_MOST_TAG_DIRECTIVES} %TAG directives")


def read_yaml(
    text: str,
    budget: Budget,
    *,
    resolver: Resolver = resolve,
    wanted: Wanted = (),
    unique: bool = False,
    first_only: bool = False,
) -> list[Any]:
    """Return the documents of a YAML text as plain JSON data; one without content is None.

    Args:
        text: without a byte order mark.
        budget: what may be built, of this text and of others.
        resolver: what plain scalars mean.
        wanted: which parts to build; the others are scanned only, and anchors in them cannot be referred to.
        unique: refuse a key that stands twice in one mapping; else the last one wins, as for Helm.
        first_only: stop after the first document.

    Raises:
        DocumentError: the text is not YAML, says what JSON cannot say, or exceeds the budget.
    """
    check_directives(text)
    reader = _Reader(text, budget, resolver, wanted, unique=unique, first_only=first_only)
    try:
        return reader.run()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise error_at(text, mark.index if mark else 0, error.problem or "is not YAML") from None
    except ReaderError as error:
        raise error_at(text, _characters(text, error.position), "a character that YAML does not allow") from None
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, "half a surrogate pair is no character") from None


def _characters(text: str, position: int) -> int:
    """Return the index of the character at a byte."""
    return len(text.encode()[:position].decode(errors="ignore"))
