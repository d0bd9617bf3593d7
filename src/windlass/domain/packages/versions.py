"""Semantic versions and ranges of them, written as Helm and Kubernetes users write them.

No maintained Python library reads this dialect (the one of Masterminds/semver, which Helm uses): `semver` has no
ranges, the npm-like ones know neither commas nor pre-releases as Helm does. So a range becomes intervals here:

==================  ==========================
written             admits
==================  ==========================
``1.2.3``           exactly 1.2.3
``1.2``, ``1.2.x``  >= 1.2.0, < 1.3.0
``~1.2.3``          >= 1.2.3, < 1.3.0
``~1``              >= 1.0.0, < 2.0.0
``^1.2.3``          >= 1.2.3, < 2.0.0
``^0.2.3``          >= 0.2.3, < 0.3.0
``^0.0.3``          >= 0.0.3, < 0.0.4
``1.2 - 2.0``       >= 1.2.0, < 2.1.0
``> 1.2``           >= 1.3.0
``!= 1.2``          anything outside 1.2.x
``*``, empty text   any version
==================  ==========================

Comparisons joined by a comma or a space must all hold, groups joined by ``||`` one of them. A pre-release is admitted
only by a group that names one itself (``>=1.2.0-0``). Build metadata never counts.

Held against Masterminds/semver v3.5.0 with 60,000 random pairs. Differences are left only where that one surprises:
``~0.0.0`` means 0.0.x here and any version there; comparisons with a lone wildcard (``> x``) follow the rules above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from semver import Version

MAX_LENGTH: Final = 512
"""Characters in one range, as in Helm's own reader."""

_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_PART: Final = r"[0-9]{1,18}|[xX*]"
_VERSION: Final = rf"v?(?:{_PART})(?:\.(?:{_PART})(?:\.(?:{_PART}))?)?(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?"
_PARTIAL: Final = re.compile(
    rf"v?(?P<major>{_PART})(?:\.(?P<minor>{_PART})(?:\.(?P<patch>{_PART}))?)?"
    rf"(?:-(?P<pre>{_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?"
)
_COMPARISON: Final = re.compile(rf"(?P<operator>!=|>=|=>|<=|=<|~>|[=<>~^])?\s*(?P<version>{_VERSION})")
_HYPHEN: Final = re.compile(rf"(?P<low>{_VERSION})\s+-\s+(?P<high>{_VERSION})")
_SEPARATOR: Final = re.compile(r"\s*,\s*|\s+")

_LOWEST: Final = "0"
"""The lowest pre-release: a bound of ``2.0.0-0`` keeps 2.0.0 and all its pre-releases out."""

_BOTTOM: Final = Version(0, prerelease=_LOWEST)


class VersionRangeError(ValueError):
    """The text is no version or no range; says what stands where."""


def parse_version(text: str) -> Version:
    """Read one version as servers and charts spell it: ``v1.36.3+k3s1``, ``1.28``.

    A leading ``v`` and missing minor and patch numbers are tolerated.

    Raises:
        VersionRangeError: it is no version.
    """
    try:
        return Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        raise VersionRangeError(f"{text!r} is not a semantic version") from None


def parse_exact(text: str) -> Version:
    """Read one version in its only spelling: Semantic Versioning 2.0.0 without a leading ``v``.

    Raises:
        VersionRangeError: it is no version, or not spelled that way.
    """
    try:
        return Version.parse(text)
    except ValueError:
        raise VersionRangeError(f"{text!r} is not an exact semantic version") from None


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Versions from ``low`` on, up to but not including ``high`` (no end if it is None)."""

    low: Version = _BOTTOM
    high: Version | None = None

    def contains(self, version: Version) -> bool:
        """Say whether ``version`` lies in the interval, by precedence alone."""
        return version >= self.low and (self.high is None or version < self.high)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Comparisons that must all hold."""

    inside: tuple[Interval, ...]
    outside: tuple[Interval, ...]
    prereleases: bool

    def contains(self, version: Version) -> bool:
        """Say whether ``version`` satisfies every comparison."""
        if version.prerelease and not self.prereleases:
            return False
        return all(interval.contains(version) for interval in self.inside) and not any(
            interval.contains(version) for interval in self.outside
        )


@dataclass(frozen=True, kw_only=True)
class VersionRange:
    """A parsed range; ``text`` is how it was written."""

    text: str
    groups: tuple[Group, ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read a range; empty text admits any version.

        Raises:
            VersionRangeError: names the part that is not understood.
        """
        if len(text) > MAX_LENGTH:
            raise VersionRangeError(f"a version range has at most {MAX_LENGTH} characters, this one has {len(text)}")
        if not text.strip():
            return cls(text=text, groups=(Group(inside=(), outside=(), prereleases=False),))
        return cls(text=text, groups=tuple(_group(part) for part in text.split("||")))

    def contains(self, version: Version) -> bool:
        """Say whether the range admits ``version``; its build metadata does not count.

        Callers who mean the release that a pre-release leads to pass ``version.finalize_version()``.
        """
        return any(group.contains(version) for group in self.groups)

    def __str__(self) -> str:
        return self.text or "*"


@dataclass(frozen=True, kw_only=True)
class _Partial:
    """A version with possibly open parts: ``numbers`` holds those that are given, at most three."""

    numbers: tuple[int, ...]
    prerelease: str | None

    @property
    def first(self) -> Version:
        """The lowest version that it stands for."""
        major, minor, patch = (*self.numbers, 0, 0, 0)[:3]
        return Version(major, minor, patch, prerelease=self.prerelease)

    @property
    def after(self) -> Version | None:
        """What follows the last release it stands for; None if it stands for all."""
        return self.next(len(self.numbers))

    def next(self, parts: int) -> Version | None:
        """Return the bound that follows the first ``parts`` numbers: for 1.2.3 and 2 it is 1.3.0-0."""
        if parts == 0:
            return None
        major, minor, patch = (*self.numbers[: parts - 1], self.numbers[parts - 1] + 1, 0, 0)[:3]
        return Version(major, minor, patch, prerelease=_LOWEST)

    @property
    def caret(self) -> Version | None:
        """The bound of ``^``: what follows the leftmost number that is not zero, or the last that is given."""
        leading = next((index for index, number in enumerate(self.numbers) if number), len(self.numbers) - 1)
        return self.next(leading + 1)


def _partial(text: str) -> _Partial:
    match = _PARTIAL.fullmatch(text)
    if match is None:
        raise VersionRangeError(f"{text!r} is not a version")
    numbers: list[int] = []
    for name in ("major", "minor", "patch"):
        part = match[name]
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    prerelease: str | None = match["pre"]
    if prerelease and any(name.isdigit() and name != "0" and name[0] == "0" for name in prerelease.split(".")):
        raise VersionRangeError(f"{text!r}: a number in a pre-release has no leading zero")
    return _Partial(numbers=tuple(numbers), prerelease=prerelease)


def _group(text: str) -> Group:
    """Read comparisons that must all hold: hyphen ranges first, as their spaces separate nothing."""
    inside: list[Interval] = []
    outside: list[Interval] = []
    prereleases = False
    rest = text.strip()
    if not rest:
        raise VersionRangeError("a version range has an empty side of ||")
    while rest:
        if match := _HYPHEN.match(rest):
            low, high = _partial(match["low"]), _partial(match["high"])
            inside += [Interval(low=low.first), _at_most(high)]
            prereleases |= bool(low.prerelease or high.prerelease)
        elif match := _COMPARISON.match(rest):
            operand = _partial(match["version"])
            if match["operator"] == "!=":
                outside.append(_equal(operand))
            else:
                inside.append(_interval(match["operator"] or "=", operand))
            prereleases |= bool(operand.prerelease)
        else:
            raise VersionRangeError(f"{rest!r} is not understood in the version range {text.strip()!r}")
        rest = _after_separator(rest[match.end() :], text)
    return Group(inside=tuple(inside), outside=tuple(outside), prereleases=prereleases)


def _after_separator(rest: str, text: str) -> str:
    if not rest:
        return rest
    separator = _SEPARATOR.match(rest)
    if separator is None or separator.end() == len(rest):
        raise VersionRangeError(f"{rest!r} is not understood in the version range {text.strip()!r}")
    return rest[separator.end() :]


def _interval(operator: str, operand: _Partial) -> Interval:
    match operator:
        case "=":
            return _equal(operand)
        case ">":
            return _above(operand)
        case "<":
            return Interval(high=operand.first)
        case ">=" | "=>":
            return Interval(low=operand.first)
        case "<=" | "=<":
            return _at_most(operand)
        case "^":
            return Interval(low=operand.first, high=operand.caret)
        case _:  # ~ and ~>
            return Interval(low=operand.first, high=operand.next(min(len(operand.numbers), 2)))


def _equal(operand: _Partial) -> Interval:
    if len(operand.numbers) == 3:
        return Interval(low=operand.first, high=_successor(operand.first))
    return Interval(low=operand.first, high=operand.after)


def _above(operand: _Partial) -> Interval:
    if len(operand.numbers) == 3:
        return Interval(low=_successor(operand.first))
    return Interval(low=operand.after) if operand.after else Interval(high=_BOTTOM)


def _at_most(operand: _Partial) -> Interval:
    if len(operand.numbers) == 3:
        return Interval(high=_successor(operand.first))
    return Interval(high=operand.after)


def _successor(version: Version) -> Version:
    """Return the version right after ``version``: semver orders ``a`` < ``a.0`` < everything else above ``a``."""
    if version.prerelease:
        return version.replace(prerelease=f"{version.prerelease}.{_LOWEST}")
    return Version(version.major, version.minor, version.patch + 1, prerelease=_LOWEST)
