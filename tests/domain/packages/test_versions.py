from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semver import Version

from windlass.domain.packages.versions import MAX_LENGTH, VersionRange, VersionRangeError, parse_exact, parse_version

RECORDED = [
    line.split("\t")
    for line in (Path(__file__).parent / "version_ranges.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def admits(text: str, version: str) -> bool:
    return VersionRange.parse(text).contains(parse_version(version))


def test_helms_own_reader_says_the_same() -> None:
    """Some hundred random ranges and versions, answered by the library that Helm uses."""
    assert len(RECORDED) > 300
    wrong = [row for row in RECORDED if str(admits(row[0], row[1])).lower() != row[2]]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", ["0.0.0", "99.0.0"], ["1.0.0-rc.1"]),
        ("*", ["0.0.0", "99.0.0"], ["1.0.0-rc.1"]),
        ("1.2.3", ["1.2.3", "1.2.3+build"], ["1.2.4", "1.2.3-rc.1"]),
        ("1.2", ["1.2.0", "1.2.99"], ["1.3.0", "1.1.99"]),
        ("2.x", ["2.0.0", "2.9.9"], ["3.0.0", "1.9.9", "2.1.0-rc.1"]),
        ("~1.2.3", ["1.2.3", "1.2.99"], ["1.3.0", "1.2.2"]),
        ("~1", ["1.0.0", "1.99.0"], ["2.0.0"]),
        ("^1.2", ["1.2.0", "1.99.0"], ["2.0.0", "2.0.0-rc.1", "1.1.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        (">=1.28", ["1.28.0", "2.0.0"], ["1.27.9", "1.28.0-rc.1"]),
        (">=1.28.0-0", ["1.28.0", "1.28.0-rc.1", "1.29.1-gke.5"], ["1.27.9"]),
        ("> 1.2", ["1.3.0"], ["1.2.0", "1.2.9"]),
        ("<= 1.2", ["1.2.9"], ["1.3.0"]),
        ("< 1.2", ["1.1.9"], ["1.2.0"]),
        ("!= 1.2", ["1.1.0", "1.3.0"], ["1.2.5"]),
        ("1.2 - 2.0", ["1.2.0", "2.0.9"], ["2.1.0", "1.1.9"]),
        ("~1.2 || 2.x", ["1.2.5", "2.7.0"], ["1.3.0", "3.0.0"]),
        (">=1.2, <1.4", ["1.2.0", "1.3.9"], ["1.4.0"]),
        (">=1.2 <1.4 !=1.3.1", ["1.3.0"], ["1.3.1", "1.4.0"]),
        (">= v1.35", ["1.36.3", "1.35.0"], ["1.34.9"]),
    ],
)
def test_what_people_write(text: str, inside: list[str], outside: list[str]) -> None:
    assert [version for version in inside if not admits(text, version)] == []
    assert [version for version in outside if admits(text, version)] == []


def test_the_one_place_where_helms_reader_is_not_followed() -> None:
    assert admits("~0.0.0", "0.0.7")
    assert not admits("~0.0.0", "3.2.0"), "there it means any version"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("latest", "'latest'"),
        (">=1.2.x.y", ".y"),
        ("1.2.3 ||", "empty side"),
        ("|| 1", "empty side"),
        (">=", "'>='"),
        ("1,", "','"),
        ("1.2.3-01", "leading zero"),
        (">= 1.2 and <2", "'and <2'"),
        ("1" * 600, str(MAX_LENGTH)),
        ("1" * 30, "not understood"),
        ("1 -2 -", "not understood"),
    ],
)
def test_what_is_not_understood_is_quoted(text: str, names: str) -> None:
    with pytest.raises(VersionRangeError) as caught:
        VersionRange.parse(text)
    assert names in str(caught.value)


def test_servers_spell_versions_their_way() -> None:
    assert parse_version("v1.36.3+k3s1") == Version(1, 36, 3, build="k3s1")
    assert parse_version("1.28") == Version(1, 28)
    with pytest.raises(VersionRangeError, match="'one'"):
        parse_version("one")


@pytest.mark.parametrize("text", ["1.2.3", "1.2.3-rc.1", "0.0.0+b"])
def test_exact_versions(text: str) -> None:
    assert str(parse_exact(text)) == text


@pytest.mark.parametrize("text", ["v1.2.3", "1.2", "1", "", "1.2.3.4", "01.2.3", "1.2.3-01", " 1.2.3", "latest"])
def test_inexact_versions(text: str) -> None:
    with pytest.raises(VersionRangeError, match="exact"):
        parse_exact(text)


numbers = st.integers(0, 9)
versions = st.builds(Version, numbers, numbers, numbers, st.sampled_from([None, "rc.1", "alpha", "0"]))
releases = st.builds(Version, numbers, numbers, numbers)


def within(text: str, version: Version) -> bool:
    return VersionRange.parse(text).contains(version)


@given(releases, versions)
def test_comparisons_agree_with_precedence(bound: Version, version: Version) -> None:
    plain = not version.prerelease
    assert within(f">={bound}", version) == (plain and version >= bound)
    assert within(f">{bound}", version) == (plain and version > bound)
    assert within(f"<{bound}", version) == (plain and version < bound)
    assert within(f"<={bound}", version) == (plain and version <= bound)
    assert within(f"!={bound}", version) == (plain and version != bound)


@given(releases, versions)
def test_tilde_lies_in_caret_or_caret_in_tilde_and_both_keep_their_promise(bound: Version, version: Version) -> None:
    if within(f"~{bound}", version):
        assert (version.major, version.minor) == (bound.major, bound.minor)
    if within(f"^{bound}", version):
        assert version.major == bound.major
    assert within(f"~{bound}", bound)
    assert within(f"^{bound}", bound)


@given(releases, releases, versions)
def test_or_and_and_are_what_they_say(one: Version, other: Version, version: Version) -> None:
    first, second = f">={one}", f"<{other}"
    assert within(f"{first} || {second}", version) == (within(first, version) or within(second, version))
    assert within(f"{first}, {second}", version) == (within(first, version) and within(second, version))
    assert within(f"{one} - {other}", version) == within(f">={one} <={other}", version)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        VersionRange.parse(text)
    except VersionRangeError as error:
        assert str(error)  # noqa: PT017 - both outcomes are right
