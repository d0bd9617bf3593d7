"""Which stored revisions of a Helm release are ours: a pure decision about records that others may have written.

Helm keeps its records in Secrets of the target namespace, where the package's account and everybody with a right to
Secrets can write. They are believed only if the state Secret in Windlass' own namespace says so: before an operation it
notes the number of the revision about to be made, after it the digest of what Helm has stored under that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

KEPT: Final = 32
"""Revisions whose digests are remembered; Helm keeps ten."""

STORED_MOST: Final = 64
"""Stored revisions of one release that are looked at; Helm itself reads all of them at each operation."""

FINGERPRINT: Final = 12
"""Characters of a digest by which people name what they have been told of."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A revision that we made, or that a person has adopted, and the keyed digest of its record."""

    revision: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of the records of one release.

    Attributes:
        noted: number of the revision that the last operation was about to make; 0 if there was none.
        made: revisions whose records are believed, in ascending order.
        told: digest of the foreign records that people were last told of; empty if there are none.
    """

    noted: int = 0
    made: tuple[Made, ...] = ()
    told: str = ""

    @property
    def nothing(self) -> bool:
        """Whether no operation on this release was ever begun."""
        return not self.noted and not self.made

    def digest_of(self, revision: int) -> str:
        """Return the digest of a revision's record, empty if it is not known."""
        return next((one.digest for one in self.made if one.revision == revision), "")

    def noting(self, revision: int) -> Known:
        """Return what is known once ``revision`` is about to be made.

        Numbers from there on are used again: what was known of them is about records that are gone.
        """
        return Known(noted=revision, made=tuple(one for one in self.made if one.revision < revision))

    def with_made(self, *made: Made) -> Known:
        """Return what is known with these revisions; they replace those of their numbers."""
        numbers = {one.revision for one in made}
        others = [one for one in self.made if one.revision not in numbers]
        return replace(self, made=tuple(sorted((*others, *made), key=lambda one: one.revision)[-KEPT:]))


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One Secret that Helm takes for a record of the release.

    Attributes:
        secret: its name.
        revision: the number in its label; 0 if the Secret does not have the name that Helm gives to that number.
        digest: the keyed digest of what it holds; empty if it was not read.
        broken: why it cannot be a record that Helm wrote; empty if it can.
    """

    secret: str
    revision: int
    digest: str = ""
    broken: str = ""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the stored records are.

    Attributes:
        ours: numbers of revisions whose records are believed, in ascending order.
        unfinished: number of a revision that an operation of ours began and whose record was never read; 0 if none.
        foreign: everything else.
    """

    ours: tuple[int, ...]
    unfinished: int
    foreign: tuple[Stored, ...]


def unread(revision: int, known: Known) -> bool:
    """Say whether the record of ``revision`` need not be read: an operation of ours was interrupted when it made it.

    What it holds is not believed in any case: somebody may have written it after the process died.
    """
    return revision == known.noted and not known.digest_of(revision)


def judge(stored: Sequence[Stored], known: Known) -> Judgement:
    """Tell our records from others."""
    ours: list[int] = []
    unfinished = 0
    foreign: list[Stored] = []
    for one in stored:
        if not one.revision or one.revision in ours:
            foreign.append(one)
        elif unread(one.revision, known):
            unfinished = one.revision
        elif not one.broken and one.digest and one.digest == known.digest_of(one.revision):
            ours.append(one.revision)
        else:
            foreign.append(one)
    return Judgement(ours=tuple(sorted(ours)), unfinished=unfinished, foreign=tuple(foreign))


def may_adopt(asked: str | None, known: Known, fingerprint: str) -> bool:
    """Say whether a person has accepted these foreign records.

    Args:
        asked: the fingerprint that the person named, empty for what was last told of; None if nobody has asked.
        known: what is known; says what was last told of.
        fingerprint: digest of the foreign records as they are now.
    """
    if asked is None or known.told != fingerprint:
        return False
    return not asked or (len(asked) >= FINGERPRINT and fingerprint.startswith(asked))
