"""Tells our release records from those that others wrote (`windlass.domain.lifecycle.provenance`).

Helm reads every Secret with its labels for each operation: for what to delete, which Helm hooks to run, what number
comes next. So each of them is checked, right before Helm runs. Records that have not changed since this process checked
them are not read again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.adapters.helm import record
from windlass.adapters.helm.record import Record
from windlass.adapters.helm.storage import Found, Storage
from windlass.domain.digests import canonical_json
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.lifecycle.provenance import (
    FINGERPRINT,
    STORED_MOST,
    Judgement,
    Made,
    Stored,
    judge,
    may_adopt,
    unread,
)
from windlass.domain.lifecycle.releases import Revision
from windlass.domain.settings import value_differences
from windlass.ports.helm import Ledger, ReleaseRef, ReleaseRequest
from windlass.ports.kube import Object

CHECKED_KEPT: Final = 20_000
"""Records whose digests this process remembers, about 300 bytes each."""

NAMED: Final = 3
"""Foreign records that a message names."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What is stored of a release and ours.

    Attributes:
        history: our revisions, oldest first.
        newest: the newest of them, decoded.
        unfinished: number of a revision whose record was not read (`provenance.Judgement`); 0 if there is none.
        ignored: whether other records are there, and the release is none of ours.
    """

    history: tuple[Revision, ...] = ()
    newest: Record | None = None
    unfinished: int = 0
    ignored: bool = False


class Ownership:
    """Checks records; remembers what it has checked."""

    def __init__(self) -> None:
        self._checked: OrderedDict[tuple[ReleaseRef, str, str], str] = OrderedDict()

    async def observe(
        self,
        storage: Storage,
        ref: ReleaseRef,
        ledger: Ledger,
        *,
        owner: str,
        wanted: ReleaseRequest | None = None,
    ) -> Observed:
        """Return what is stored; what a person has adopted counts as ours from now on.

        Args:
            storage: of the release's cluster.
            ref: the release.
            ledger: says what is ours.
            owner: the package.
            wanted: what the release is to become; None if it is to go: one that is not ours is ``ignored`` then.

        Raises:
            PermanentError: RELEASE_FOREIGN, or RELEASE_CONFLICT if the release was made for another package.
        """
        while True:
            found = await storage.found(ref)
            stored, newest = await self._stored(storage, ref, ledger, found)
            judgement = judge(stored, ledger.known)
            if judgement.foreign:
                if wanted is None and ledger.known.nothing:
                    return Observed(ignored=True)
                await self._adopt(storage, ref, ledger, judgement, owner=owner, wanted=wanted)
                continue
            history = tuple(
                sorted(
                    (one.revision for one in found if one.revision and one.revision.number in judgement.ours),
                    key=lambda revision: revision.number,
                )
            )
            if not history:
                return Observed(unfinished=judgement.unfinished)
            last = newest or await self.trusted(storage, ref, ledger, history[-1].number)
            if last is not None and last.revision == history[-1].number:
                return Observed(history=history, newest=last, unfinished=judgement.unfinished)
            # Deleted or changed between two requests: look again.

    async def trusted(self, storage: Storage, ref: ReleaseRef, ledger: Ledger, revision: int) -> Record | None:
        """Return the record of one revision if it is there and ours; nothing else is ever decoded for its effects."""
        secret = await storage.secret(ref, revision)
        if secret is None:
            return None
        found = await asyncio.to_thread(_open, secret, ref, revision, ledger)
        self._remember(ref, secret, found.stored)
        ours = not found.stored.broken and found.stored.digest == ledger.known.digest_of(revision)
        return await asyncio.to_thread(record.record_of, found.content, secret) if ours else None

    async def write_down(self, storage: Storage, ref: ReleaseRef, ledger: Ledger, revision: int) -> Record | None:
        """Believe the record that an operation of ours has just made; return it, or None if there is none."""
        secret = await storage.secret(ref, revision)
        if secret is None:
            return None
        found = await asyncio.to_thread(_open, secret, ref, revision, ledger)
        if found.stored.broken:
            return None
        self._remember(ref, secret, found.stored)
        await ledger.note(ledger.known.with_made(Made(revision=revision, digest=found.stored.digest)))
        return await asyncio.to_thread(record.record_of, found.content, secret)

    async def _stored(
        self, storage: Storage, ref: ReleaseRef, ledger: Ledger, found: tuple[Found, ...]
    ) -> tuple[list[Stored], Record | None]:
        """Return what is stored, and the newest revision decoded if it had to be read and is ours."""
        if len(found) > STORED_MOST:
            broken = f"{len(found)} Secrets claim to be records of it, more than {STORED_MOST}"
            return [Stored(secret=found[0].name, revision=0, broken=broken)], None
        number = max((one.revision.number for one in found if one.revision is not None), default=0)
        newest: Record | None = None
        stored: list[Stored] = []
        for one in found:
            revision = one.revision.number if one.revision is not None else 0
            if not revision:
                stored.append(Stored(secret=one.name, revision=0, broken="its name is not that of a record"))
                continue
            known = self._checked.get((ref, one.uid, one.resource_version))
            if unread(revision, ledger.known) or known is not None:
                stored.append(Stored(secret=one.name, revision=revision, digest=known or ""))
                continue
            secret = await storage.secret(ref, revision)
            if secret is None:
                continue
            opened = await asyncio.to_thread(_open, secret, ref, revision, ledger)
            self._remember(ref, secret, opened.stored)
            stored.append(opened.stored)
            if revision == number and opened.stored.digest == ledger.known.digest_of(revision) != "":
                newest = await asyncio.to_thread(record.record_of, opened.content, secret)
        return stored, newest

    def _remember(self, ref: ReleaseRef, secret: Object, stored: Stored) -> None:
        if stored.broken:
            return
        metadata = secret["metadata"]
        self._checked[ref, metadata["uid"], metadata["resourceVersion"]] = stored.digest
        if len(self._checked) > CHECKED_KEPT:
            self._checked.popitem(last=False)

    async def _adopt(
        self,
        storage: Storage,
        ref: ReleaseRef,
        ledger: Ledger,
        judgement: Judgement,
        *,
        owner: str,
        wanted: ReleaseRequest | None,
    ) -> None:
        """Take over the foreign records if a person has accepted just these; else say what they are."""
        foreign = sorted(judgement.foreign, key=lambda one: (one.revision, one.secret))
        summary = [[one.secret, one.revision, one.digest, one.broken] for one in foreign]
        fingerprint = ledger.digest(canonical_json(summary))
        broken = any(one.broken for one in foreign)
        if not broken and may_adopt(ledger.adopt, ledger.known, fingerprint):
            made = [Made(revision=one.revision, digest=one.digest) for one in foreign]
            await ledger.note(replace(ledger.known.with_made(*made), told=""))
            return
        newest = await self._content(storage, ref, foreign[-1])
        told = _told(ref, foreign, newest, ledger, wanted)
        if newest is not None and ledger.known.nothing:
            theirs = record.owner_of(newest)
            if theirs not in {"", owner}:
                raise PermanentError(
                    Reason.RELEASE_CONFLICT,
                    f"{ref} belongs to {theirs}",
                    hint="create the object again with another spec.releaseName, or in another namespace",
                    actor=Actor.USER,
                )
        await ledger.note(replace(ledger.known, told=fingerprint))
        named = f"; fingerprint {fingerprint[:FINGERPRINT]}"
        raise PermanentError(Reason.RELEASE_FOREIGN, told + named, hint=_hint(ref, wanted, broken=broken))

    async def _content(self, storage: Storage, ref: ReleaseRef, one: Stored) -> dict[str, Any] | None:
        """Return what a foreign record holds, for telling people of it and for nothing else."""
        if one.broken:
            return None
        secret = await storage.secret(ref, one.revision)
        try:
            return await asyncio.to_thread(record.content, secret) if secret is not None else None
        except PermanentError:
            return None


@dataclass(frozen=True, kw_only=True)
class _Opened:
    stored: Stored
    content: dict[str, Any]


def _open(secret: Object, ref: ReleaseRef, revision: int, ledger: Ledger) -> _Opened:
    name = secret["metadata"]["name"]
    try:
        content = record.content(secret)
        digest = ledger.digest(record.signed(content, ref, revision))
    except PermanentError:
        return _Opened(stored=Stored(secret=name, revision=revision, broken="it cannot be read"), content={})
    except (ValueError, RecursionError) as error:
        broken = str(error) if isinstance(error, ValueError) else "it cannot be read"
        return _Opened(stored=Stored(secret=name, revision=revision, broken=broken), content={})
    return _Opened(stored=Stored(secret=name, revision=revision, digest=digest), content=content)


def _told(
    ref: ReleaseRef,
    foreign: list[Stored],
    newest: dict[str, Any] | None,
    ledger: Ledger,
    wanted: ReleaseRequest | None,
) -> str:
    """Return the message about foreign records: what they are, and which values would change."""
    names = [
        f"Secret {one.secret}" + (f" ({one.broken})" if one.broken else f" (revision {one.revision})")
        for one in foreign[-NAMED:]
    ]
    more = f" and {len(foreign) - NAMED} more" if len(foreign) > NAMED else ""
    if ledger.known.nothing:
        what = f"{ref} exists and was not installed by this package: {', '.join(names)}{more}"
    else:
        what = f"somebody else wrote records of {ref}: {', '.join(names)}{more}"
    if newest is None or wanted is None:
        return what
    chart = record.chart_of(newest)
    differences = value_differences.told(record.values_of(newest), wanted.values, plain=wanted.plain())
    values = f"values: {differences}" if differences else "the values are the same"
    return f"{what}; it holds {chart}, {values}"


def _hint(ref: ReleaseRef, wanted: ReleaseRequest | None, *, broken: bool) -> str:
    if broken:
        return "delete the Secrets that cannot be records; what is left is looked at again"
    look = f"look at `helm history {ref.name} -n {ref.namespace}`"
    if wanted is None:
        return (
            f"{look}; `windlass adopt` has it uninstalled with all objects that it names, "
            "the annotation windlass.dev/abandon: true leaves it in place"
        )
    return f"{look} and `windlass diff`; `windlass adopt` takes it over as it is and goes on from there"
