from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.lifecycle.provenance import FINGERPRINT, KEPT, Known, Made, Stored, judge, may_adopt, unread

DIGESTS = st.sampled_from(["", "a", "b", "c"])
STORED = st.builds(
    Stored,
    secret=st.text("ab", min_size=1, max_size=2),
    revision=st.integers(0, 5),
    digest=DIGESTS,
    broken=st.sampled_from(["", "it cannot be read"]),
)
KNOWN = st.builds(
    Known,
    noted=st.integers(0, 5),
    made=st.lists(
        st.builds(Made, revision=st.integers(1, 5), digest=st.sampled_from("abc")),
        max_size=5,
        unique_by=lambda one: one.revision,
    ).map(tuple),
)


@given(st.lists(STORED, max_size=6), KNOWN)
def test_every_record_is_ours_unfinished_or_foreign(stored: list[Stored], known: Known) -> None:
    found = judge(stored, known)
    assert len(found.ours) + bool(found.unfinished) + len(found.foreign) == len(stored) - repeated(stored, known)
    for number in found.ours:
        assert known.digest_of(number)
        assert any(one.revision == number and one.digest == known.digest_of(number) for one in stored)
    assert not found.unfinished or unread(found.unfinished, known)


def repeated(stored: list[Stored], known: Known) -> int:
    """How many Secrets beyond the first claim the number of the unfinished revision; Secrets have one name each."""
    return max(0, sum(1 for one in stored if one.revision and unread(one.revision, known)) - 1)


@given(KNOWN, st.integers(1, 5), st.sampled_from("abc"))
def test_a_number_that_is_used_again_is_not_believed_by_its_old_digest(known: Known, number: int, digest: str) -> None:
    noted = known.noting(number)
    assert unread(number, noted)
    assert all(one.revision < number for one in noted.made)
    assert not unread(number, noted.with_made(Made(revision=number, digest=digest)))


def test_nothing_is_believed_before_anything_was_made() -> None:
    one = Stored(secret="sh.helm.release.v1.web.v1", revision=1, digest="a")
    assert judge([one], Known()).foreign == (one,)
    assert Known().nothing
    assert not Known(noted=1).nothing


def test_a_secret_without_the_name_of_a_record_is_foreign() -> None:
    known = Known(noted=1, made=(Made(revision=1, digest="a"),))
    mine = Stored(secret="sh.helm.release.v1.web.v1", revision=1, digest="a")
    other = Stored(secret="other", revision=0)
    found = judge([mine, other], known)
    assert (found.ours, found.foreign) == ((1,), (other,))


def test_digests_are_bounded() -> None:
    known = Known()
    for number in range(1, 2 * KEPT):
        known = known.noting(number).with_made(Made(revision=number, digest=str(number)))
    assert len(known.made) == KEPT
    assert known.made[-1].revision == 2 * KEPT - 1


PRINT = "0123456789abcdef"


@pytest.mark.parametrize(
    ("asked", "told", "adopted"),
    [
        (None, PRINT, False),
        ("", PRINT, True),
        ("", "something else", False),
        (PRINT[:FINGERPRINT], PRINT, True),
        (PRINT, PRINT, True),
        (PRINT[: FINGERPRINT - 1], PRINT, False),
        ("f" * FINGERPRINT, PRINT, False),
    ],
)
def test_only_what_people_were_told_of_is_adopted(asked: str | None, told: str, *, adopted: bool) -> None:
    assert may_adopt(asked, Known(told=told), PRINT) is adopted
