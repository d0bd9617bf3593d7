"""Makes sure that a package's content is here, and computes the values that it is released with."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from windlass.activities.repositories import repository_of_pinned, with_access
from windlass.contracts.record import PackageRecord, RecordRef, ReleasedRecord, RevisionRecord
from windlass.contracts.repositories import PackageRepository
from windlass.domain.digests import content_digest, keyed_digest
from windlass.domain.errors import Reason, TransientError, WindlassError
from windlass.domain.ids import SYSTEM_NAMESPACE, PackageKey, record_name
from windlass.domain.lifecycle.steps import completion_mark
from windlass.domain.packages.model import Artifact, Package, Source, Values
from windlass.domain.settings.schema import Schemas, prepare_schemas
from windlass.domain.settings.values import compute_values
from windlass.ports.kube import Kube
from windlass.ports.packages import Packages
from windlass.ports.records import Records

AT_HAND_SECONDS: Final = 1.0
"""What finding out whether content is at hand may take; a folder with much in it is read by the step that downloads."""

PACKAGES_KEPT: Final = 500
"""Contents whose schemas, and whose hooks, a worker keeps prepared; those it has not used for longest go first."""

UPDATE_ATTEMPTS: Final = 4
"""Tries of a change to a record that somebody else changes at the same time."""

RECORDS_KEPT: Final = 1000
"""Records kept in memory between the steps of one pass."""


def revision_of(artifact: Artifact, record: PackageRecord) -> RevisionRecord:
    """Return what the release of this content with the settings and patches in ``record`` is made from."""
    return RevisionRecord(
        mark=completion_mark(artifact, record.settings_digest),
        settings=record.settings or {},
        settings_digest=record.settings_digest,
        secrets=record.secrets,
        patches=record.patches,
        config_patches=record.config_patches,
    )


@dataclass(frozen=True, kw_only=True)
class Content:
    """One package as it lies on this worker's disk."""

    root: Path
    package: Package
    schemas: Schemas


@dataclass(frozen=True, kw_only=True)
class State:
    """The state Secret of one life; ``ref`` is None while there is no Secret.

    ``inherited`` says that what is stored is of an earlier life; ``record`` is what of it still holds.
    """

    record: PackageRecord
    ref: RecordRef | None
    inherited: bool = False


class Contents:
    """What every activity does first: have the content, have the record, know the values."""

    def __init__(self, kube: Kube, packages: Packages, records: Records, digest_key: bytes) -> None:
        self._kube = kube
        self._packages = packages
        self._records = records
        self._digest_key = digest_key
        self._schemas: OrderedDict[str, Schemas] = OrderedDict()
        self._turns: WeakValueDictionary[PackageKey, asyncio.Lock] = WeakValueDictionary()
        self._stored: OrderedDict[PackageKey, tuple[PackageRecord, RecordRef]] = OrderedDict()

    async def at_hand(self, repository: PackageRepository | None, source: Source) -> Artifact | None:
        """Return what a source comes to, if that can be told here and now and its content is in the cache.

        None is no fault: the step that downloads finds out, and tells what is wrong.
        """
        if repository is None or repository.spec.secrets:
            return None
        try:
            async with asyncio.timeout(AT_HAND_SECONDS):
                return await self._packages.at_hand(await with_access(self._kube.get, repository), source)
        except (WindlassError, TimeoutError):
            return None

    def prepared(self, digest: str) -> bool:
        """Say whether this process has read the content with this digest."""
        return digest in self._schemas

    async def ensure(self, artifact: Artifact) -> Content:
        """Return the content of ``artifact``, fetching it if this worker does not have it."""
        root = self._packages.cached(artifact.digest)
        if root is None:
            root = await self._packages.ensure(await repository_of_pinned(self._kube, artifact.source), artifact)
        package = await self._packages.load(artifact.digest)
        schemas = self._schemas.get(artifact.digest)
        if schemas is None:
            schemas = self._schemas[artifact.digest] = prepare_schemas(package)
            if len(self._schemas) > PACKAGES_KEPT:
                self._schemas.popitem(last=False)
        else:
            self._schemas.move_to_end(artifact.digest)
        return Content(root=root, package=package, schemas=schemas)

    async def state(self, key: PackageKey, uid: str, expected: RecordRef | None) -> State:
        """Return the record of the life with this ``uid``; an empty one if there is none, or one of another life.

        Hook patches and settings of an earlier life end with it. A record that this process stored itself, and that
        the workflow still knows by ``expected``, is not read again: saving it has a precondition all the same.
        """
        stored = self._stored.get(key)
        if stored is None or expected is None or stored[1] != expected:
            stored = await self._records.load(key)
        if stored is None:
            return State(record=PackageRecord(uid=uid), ref=None)
        record, ref = stored
        inherited = record.uid != uid
        if inherited:
            record = PackageRecord(
                uid=uid,
                artifact=record.artifact,
                placement=record.placement,
                released=record.released,
                known=record.known,
            )
        return State(record=record, ref=ref, inherited=inherited)

    async def save(self, key: PackageKey, state: State, record: PackageRecord) -> State:
        """Store ``record`` unless it is what is stored already.

        Raises:
            TransientError: API_CONFLICT, somebody else has stored another one; the next attempt reads it.
        """
        if state.ref is not None and record == state.record and not state.inherited:
            return state
        self._stored.pop(key, None)
        ref = await self._records.save(key, record, state.ref)
        self._stored[key] = (record, ref)
        if len(self._stored) > RECORDS_KEPT:
            self._stored.popitem(last=False)
        return State(record=record, ref=ref)

    async def update(
        self, key: PackageKey, uid: str, expected: RecordRef | None, change: Callable[[PackageRecord], PackageRecord]
    ) -> State:
        """Store what ``change`` makes of the newest record; hooks of several queues and a release write the same one.

        ``change`` may be called again, with another record: it must not do anything else.

        Raises:
            TransientError: API_CONFLICT, others keep storing other ones.
        """
        async with self._turns.setdefault(key, asyncio.Lock()):
            attempt = 0
            while True:
                attempt += 1
                stored = self._stored.get(key)
                state = await self.state(key, uid, stored[1] if stored else expected)
                try:
                    return await self.save(key, state, change(state.record))
                except TransientError as error:
                    if error.reason is not Reason.API_CONFLICT or attempt == UPDATE_ATTEMPTS:
                        raise

    async def applied(self, key: PackageKey, uid: str, expected: RecordRef | None) -> State:
        """Return the record for a step that needs the applied settings.

        Raises:
            TransientError: STATE_LOST, somebody deleted the state Secret; the lifecycle applies the settings anew.
        """
        state = await self.state(key, uid, expected)
        if state.record.settings is None:
            raise TransientError(
                Reason.STATE_LOST,
                f"the state Secret {record_name(key)} in {SYSTEM_NAMESPACE} is gone or holds no settings",
                hint="nothing to do: settings are applied and hooks are run anew",
            )
        return state

    def releasing(
        self, record: PackageRecord, artifact: Artifact, values: Values, keep: Collection[str]
    ) -> PackageRecord:
        """Return ``record`` that says what is released next.

        Written down before the attempt: a half-made release must be found even if all else is lost. What it is made
        from is kept with the revisions whose marks are in ``keep``: it may prove good, and then be gone back to.
        """
        released = ReleasedRecord(digest=self.release_digest(artifact, values), artifact=artifact)
        kept = record.with_revision(revision_of(artifact, record), keep=keep)
        return kept.model_copy(update={"released": released})

    def release_digest(self, artifact: Artifact, values: Values) -> str:
        """Return the digest of what a release is made from."""
        return content_digest({"content": artifact.digest, "values": values}, self._digest_key)

    def release_record_digest(self, content: bytes) -> str:
        """Return the keyed digest of one of Helm's records."""
        return keyed_digest("release", content, self._digest_key)

    def values(self, content: Content, record: PackageRecord) -> Values:
        """Return the merged values that follow from the applied settings and the hooks' patches."""
        return compute_values(content.package, content.schemas, record.settings or {}, record.patches)

    def digest(self, values: Values) -> str:
        """Return the keyed digest of ``values``."""
        return content_digest(values, self._digest_key)
