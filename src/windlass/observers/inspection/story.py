"""What happened to a package, when, by whom and why: Temporal, status and Helm's records told as one story."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from windlass.adapters.helm.storage import Storage
from windlass.contracts.objects import ACTIONS_KEPT, ActionRecord, PackageObject
from windlass.domain.errors import WindlassError
from windlass.observers.inspection.surroundings import Surroundings
from windlass.runtime.history import Chronicle, Moment, MomentKind, Outcome, chronicle

RELEASE: Final = "release"
CONDITION: Final = "condition"

_SAME_ACTION: Final = timedelta(seconds=10)
"""Status and Temporal note one action at times of their own."""

_LATE: Final = timedelta(minutes=5)
"""A lifecycle that began so long after its object was made is not the object's first."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the story.

    Attributes:
        at: when it began.
        kind: run, step, signal, action, release or condition.
        what: the step, action, revision or condition.
        result: what became of it; empty where nothing can.
        took: seconds, where it was timed.
        who: the person or process.
        why: the reason of an action, what a step failed of, what Helm says.
        times: how often in a row.
    """

    at: datetime
    kind: str
    what: str
    result: str = ""
    took: float | None = None
    who: str = ""
    why: str = ""
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Story:
    """Entries, oldest first, and what is not among them any more, in sentences."""

    entries: Sequence[Entry]
    forgotten: Sequence[str]


async def package_history(around: Surroundings, package: PackageObject, oldest: datetime | None = None) -> Story:
    """Read everything that is still known; without an answer of Temporal, what the clusters know.

    Args:
        around: where to read.
        package: whose history.
        oldest: leave out what was before.
    """
    known, found = await asyncio.gather(_chronicle(around, package, oldest), _releases(around, package))
    forgotten: list[str] = []
    if isinstance(found, WindlassError):
        releases: list[Entry] = []
        forgotten.append(f"revisions: {found.message}")
    else:
        releases = found
    entries = [*_conditions(package), *releases]
    if isinstance(known, Chronicle):
        told = [_entry(moment) for moment in known.moments]
        # Asked for what is new only, it does not matter how old the package is.
        forgotten += gaps(known, _created(package) if oldest is None else None)
    else:
        told = []
        forgotten.append(f"steps and signals: {known.message}")
    kept = (package.status.actions if package.status else None) or []
    entries += with_actions(told, kept)
    forgotten += _gaps_of_records(package, releases)
    if oldest is not None:
        entries = [one for one in entries if one.at >= oldest]
    return Story(entries=merged(entries), forgotten=forgotten)


async def _chronicle(
    around: Surroundings, package: PackageObject, oldest: datetime | None
) -> Chronicle | WindlassError:
    try:
        return await chronicle(around.client, package.key(around.installation), oldest=oldest)
    except WindlassError as error:
        return error


async def _releases(around: Surroundings, package: PackageObject) -> list[Entry] | WindlassError:
    if package.status is None or package.status.release is None:
        return []
    try:
        async with around.acting(package) as kube:
            storage, ref = Storage(kube), around.release(package)
            history = await storage.history(ref)
            records = await asyncio.gather(*(storage.read(ref, one.number) for one in history))
    except WindlassError as error:
        return error
    return [
        Entry(
            at=datetime.fromisoformat(record.deployed).astimezone(UTC),
            kind=RELEASE,
            what=f"revision {record.revision}",
            result=record.status,
            why=f"{record.chart} {record.chart_version}: {record.description}",
        )
        for record in records
        if record is not None and record.deployed
    ]


def _created(package: PackageObject) -> datetime | None:
    stamp = package.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else None


def _conditions(application: PackageObject) -> list[Entry]:
    conditions = (application.status.conditions if application.status else None) or []
    return [
        Entry(
            at=one.last_transition_time,
            kind=CONDITION,
            what=one.type,
            result=one.status,
            why=": ".join(text for text in (one.reason, one.message) if text),
        )
        for one in conditions
    ]


def _entry(moment: Moment) -> Entry:
    attempts = f" (attempt {moment.attempts})" if moment.attempts > 1 else ""
    return Entry(
        at=moment.at,
        kind=moment.kind.value,
        what=moment.what,
        result=moment.outcome.value if moment.outcome else "",
        took=moment.took,
        who=moment.who,
        why=moment.detail + attempts,
    )


def with_actions(told: Iterable[Entry], kept: Sequence[ActionRecord]) -> list[Entry]:
    """Return what Temporal tells, actions worded as in status, and the kept actions that it has forgotten.

    Status says what an action was about: ``pause before UpgradeRelease``.
    """
    entries, left = list(told), list(kept)
    for number, entry in enumerate(entries):
        record = next((one for one in left if _same(entry, one)), None)
        if record is not None:
            left.remove(record)
            entries[number] = replace(entry, what=record.text)
    return [*entries, *(_kept(one) for one in left)]


def _kept(action: ActionRecord) -> Entry:
    return Entry(
        at=action.at, kind=MomentKind.ACTION, what=action.text, result=Outcome.DONE, who=action.who, why=action.why
    )


def _same(entry: Entry, action: ActionRecord) -> bool:
    accepted = entry.kind == MomentKind.ACTION and entry.result == Outcome.DONE
    alike = (entry.what, entry.who, entry.why) == (action.action, action.who, action.why)
    return accepted and alike and abs(entry.at - action.at) <= _SAME_ACTION


def merged(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries oldest first; equal signals that came right after each other are one."""
    found: list[Entry] = []
    for entry in sorted(entries, key=_moment):
        before = found[-1] if found else None
        signal = entry.kind == MomentKind.SIGNAL and before is not None and before.kind == MomentKind.SIGNAL
        if signal and before is not None and (before.what, before.who) == (entry.what, entry.who):
            found[-1] = replace(before, times=before.times + 1)
        else:
            found.append(entry)
    return found


def _moment(entry: Entry) -> datetime:
    # Conditions have whole seconds, rounded down: they come after what made them true.
    return entry.at + timedelta(seconds=1) if entry.kind == CONDITION else entry.at


def gaps(known: Chronicle, made: datetime | None) -> list[str]:
    """Say what Temporal does not know any more.

    Args:
        known: what it knows.
        made: when the object was made; None if that does not matter.
    """
    keeps = f"it keeps ended runs for {_days(known.retention)}" if known.retention else "retention"
    if known.complete and known.since is None:
        return []
    if known.since is None:
        return [f"steps and signals: Temporal knows no run of this package ({keeps}, or its data was lost)"]
    late = made is not None and known.since - made > _LATE
    if known.complete and not late:
        return []
    return [f"steps and signals before {known.since:%Y-%m-%d %H:%M:%S}: Temporal has forgotten them ({keeps})"]


def _gaps_of_records(application: PackageObject, releases: Sequence[Entry]) -> list[str]:
    found: list[str] = []
    first = min((int(one.what.removeprefix("revision ")) for one in releases), default=1)
    if first > 1:
        found.append(f"revisions before {first}: Helm's records of them were removed, the newest are kept")
    actions = (application.status.actions if application.status else None) or []
    if len(actions) >= ACTIONS_KEPT:
        found.append(f"actions before {actions[0].at:%Y-%m-%d %H:%M:%S}: status keeps the newest {ACTIONS_KEPT}")
    return found


def _days(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    return f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"


def history_document(story: Story) -> dict[str, Any]:
    """Return the story for programs."""
    entries = [
        {
            "time": one.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "kind": str(one.kind),
            "what": one.what,
            "result": str(one.result),
            "seconds": one.took,
            "who": one.who,
            "why": one.why,
            "times": one.times if one.times > 1 else None,
        }
        for one in story.entries
    ]
    told = [{key: value for key, value in entry.items() if value not in (None, "")} for entry in entries]
    return {"entries": told, "forgotten": list(story.forgotten)}


def received(document: dict[str, Any]) -> Story:
    """Return the story that `history_document` was given."""
    entries = [
        Entry(
            at=datetime.fromisoformat(one["time"]),
            kind=one["kind"],
            what=one.get("what", ""),
            result=one.get("result", ""),
            took=one.get("seconds"),
            who=one.get("who", ""),
            why=one.get("why", ""),
            times=one.get("times", 1),
        )
        for one in document["entries"]
    ]
    return Story(entries=entries, forgotten=document["forgotten"])
