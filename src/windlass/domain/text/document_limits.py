"""How large a document of somebody else may be, and the error for one that is broken or larger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one text, checked while it is scanned and before anything is built beyond them.

    Attributes:
        size: characters of the text, and again of all its scalars after aliases are expanded. A text given as bytes may
            have as many bytes.
        nodes: keys and values after aliases are expanded; one takes up to about 120 bytes of memory.
        depth: levels of nesting after aliases are expanded. Python code that walks the result may recurse.
    """

    size: int
    nodes: int
    depth: int = 200


DOCUMENT: Final = Limits(size=5 * _MIB, nodes=500_000)
"""Texts that people and hooks write: settings, schemas, manifests on the command line, output of hooks."""

MANIFEST: Final = Limits(size=32 * _MIB, nodes=1_000_000)
"""Rendered charts and release records: a Secret holds 1 MiB, and text compresses about tenfold."""

INDEX: Final = Limits(size=256 * _MIB, nodes=2_000_000)
"""``index.yaml`` of a chart repository, of which only a few fields are built. The download has a narrower limit on
bytes (``WINDLASS_MAX_INDEX_MIB``); the largest public indexes have 25 MB."""


ANSWER: Final = Limits(size=512 * _MIB, nodes=20_000_000)
"""Answers of servers that bound their size by themselves (an API server, a registry). Depth is what counts here: for
Kubernetes an object may be nested 10,000 levels deep."""


class DocumentError(PermanentError):
    """A text is not what it should be, or larger than it may be.

    Neither message nor problem quotes the text, which may hold secrets.

    Attributes:
        problem: what is wrong.
        line: where, counted from 1.
        column: the character of the line, counted from 1.
        byte: counted from 0, in UTF-8.
        key: the key that is repeated, if that is the problem; may be a secret that is badly indented.
    """

    def __init__(self, problem: str, *, line: int = 1, column: int = 1, byte: int = 0, key: str = "") -> None:
        super().__init__(
            Reason.DOCUMENT_REJECTED,
            f"line {line}, column {column} (byte {byte}): {problem}",
            hint="correct the document at that place",
            actor=Actor.AUTHOR,
        )
        self.problem = problem
        self.line = line
        self.column = column
        self.byte = byte
        self.key = key

    @property
    def position(self) -> str:
        """Where, as ``line L, column C (byte B)``."""
        return f"line {self.line}, column {self.column} (byte {self.byte})"

    def moved(self, lines: int, size: int) -> DocumentError:
        """Return the error as seen from ``lines`` and ``size`` bytes before the document."""
        return DocumentError(
            self.problem, line=self.line + lines, column=self.column, byte=self.byte + size, key=self.key
        )


class DocumentTooLargeError(DocumentError):
    """The text exceeds a limit, which ``problem`` names."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.message = problem
        self.hint = "make it smaller, or split it"


def error_at(text: str, index: int, problem: str, *, key: str = "") -> DocumentError:
    """Return the error for a problem at character ``index`` of ``text``."""
    line = text.count("\n", 0, index) + 1
    column = index - (text.rfind("\n", 0, index) + 1) + 1
    size = len(text[:index].encode(errors="replace"))
    return DocumentError(problem, line=line, column=column, byte=size, key=key)


def too_many_nodes(limits: Limits) -> DocumentTooLargeError:
    """Return the error for more keys and values than ``limits`` allows."""
    return DocumentTooLargeError(f"has more than {limits.nodes} keys and values once aliases are expanded")


def too_deep(limits: Limits) -> DocumentTooLargeError:
    """Return the error for deeper nesting than ``limits`` allows."""
    return DocumentTooLargeError(f"is nested too deeply: more than {limits.depth} levels")


def decode_text(text: str | bytes, limits: Limits) -> str:
    """Return the text without its byte order mark. Bytes are UTF-8, or UTF-16 that says so with a mark, as for Helm.

    Raises:
        DocumentError: the bytes are not such text, or there are more of them than ``limits`` allows.
    """
    if len(text) > limits.size:
        unit = "characters" if isinstance(text, str) else "bytes"
        raise DocumentTooLargeError(f"has {len(text)} {unit}; at most {limits.size} are read")
    if isinstance(text, bytes):
        encoding = "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
        try:
            text = text.decode(encoding)
        except UnicodeDecodeError as error:
            read = text[: error.start].decode(encoding, errors="ignore")
            line, column = read.count("\n") + 1, len(read) - (read.rfind("\n") + 1) + 1
            raise DocumentError(f"is not {encoding.upper()}", line=line, column=column, byte=error.start) from None
    return text.removeprefix("\ufeff")
