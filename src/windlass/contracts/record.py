"""What must outlive a package's workflow: the content of its state Secret, and the reference workflows carry.

The record is truth about what was done, never about what is wanted: desired state is the object's spec. Losing it costs
a package its accumulated hook patches and one more (idempotent) pass, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Self

from pydantic import Field

from windlass.contracts.base import WireModel
from windlass.domain.lifecycle.provenance import Known
from windlass.domain.packages.model import Artifact, Hook, Values
from windlass.domain.target import Placement

SCHEMA_VERSION: Final = 1
REVISIONS_BYTES: Final = 512 * 1024
"""Of JSON that all kept revisions may have together, before compression: half of what a Secret holds."""
KNOWN_LIMIT: Final = 1000
"""Objects of one binding that are remembered, about 60 bytes each: a Secret holds 1 MiB; every run writes it."""

JOURNAL_LIMIT: Final = 20
"""Hook runs that are remembered: more than one pass of one package runs between two writes of its status."""


class RecordRef(WireModel):
    """Which record, and which state of it, a workflow has seen.

    ``digest`` is the keyed digest of the content: the same content has the same digest, whatever the
    ``resource_version`` of the Secret that holds it.
    """

    name: str
    namespace: str
    resource_version: str
    digest: str


class ReleasedRecord(WireModel):
    """The release that was applied last: the digest of its chart and values, and the content it came from."""

    digest: str
    artifact: Artifact


class RevisionRecord(WireModel):
    """What one release was made from, to make it again: applied settings, and the hooks' patches at its end.

    ``mark`` is `domain.lifecycle.steps.completion_mark` of content and settings. ``secrets`` are the texts in the
    settings that came from Secrets.
    """

    mark: str
    settings: Values
    settings_digest: str
    secrets: tuple[str, ...] = ()
    patches: tuple[dict[str, Any], ...] = ()
    config_patches: tuple[dict[str, Any], ...] = ()


class JournalEntry(WireModel):
    """A hook run that has taken effect; a repeated attempt with this ``run_id`` returns ``result`` and runs nothing."""

    run_id: str
    result: dict[str, Any]


class BindingRecord(WireModel):
    """How far a hook has been told of the objects of one kubernetes binding.

    ``synchronized`` says that its Synchronization has run (or is not wanted). ``known`` are the checksums of the
    objects as the hook was last told of them, by ``namespace/name``: what differs after a restart is told then,
    deletions among it. None where there were more than `KNOWN_LIMIT`: after a restart the whole Synchronization is
    told again.
    """

    synchronized: bool = False
    known: dict[str, str] | None = Field(default_factory=dict[str, str])


class WatchedRecord(WireModel):
    """The kubernetes bindings that are enabled: those of the hooks of the content with this ``digest``.

    ``bindings`` are by their ids (`domain.hooks.bindings.binding_id`); ``runs`` is the last run of each hook queue.
    """

    digest: str
    hooks: tuple[Hook, ...]
    bindings: dict[str, BindingRecord] = Field(default_factory=dict[str, BindingRecord])
    runs: dict[str, JournalEntry] = Field(default_factory=dict[str, JournalEntry])


class PackageRecord(WireModel):
    """The content of one state Secret.

    Attributes:
        schema_version: `SCHEMA_VERSION` of the writer; fields are only ever added.
        uid: of the object this record is about; the record of another uid tells nothing about this one.
        artifact: the content the package was switched to last.
        placement: where the package is installed and as whom; removal goes by it, whatever the object says by then.
        released: the release that was applied last.
        known: which of Helm's records of the release are ours.
        settings: user settings that were validated and applied last, references resolved: they may hold secrets.
        settings_digest: keyed digest of ``settings``.
        secrets: the texts in ``settings`` that came from Secrets: what error texts must not quote.
        patches: accumulated values operations of hooks (`windlass.domain.settings.value_patches`).
        config_patches: accumulated operations of hooks on the settings.
        started: digest of the content whose onStartup hooks have run; empty if none.
        completed: marker of the last pass that ended well; empty if none.
        revisions: what the good releases, and the one that stands, were made from; oldest first.
        watched: the kubernetes bindings that are enabled; None if none are.
        leaving: objects of a release whose deletion has begun: they are awaited also when the release is gone already.
        faults: how often in a row a process ended while a part of the work beside the steps (drift, informers) was
            under way for this package (`windlass.domain.lifecycle.losses`).
        journal: the last `JOURNAL_LIMIT` hook runs, oldest first.
    """

    schema_version: int = SCHEMA_VERSION
    uid: str
    artifact: Artifact | None = None
    placement: Placement | None = None
    released: ReleasedRecord | None = None
    known: Known = Known()
    settings: Values | None = None
    settings_digest: str = ""
    secrets: tuple[str, ...] = ()
    patches: tuple[dict[str, Any], ...] = ()
    config_patches: tuple[dict[str, Any], ...] = ()
    started: str = ""
    completed: str = ""
    journal: tuple[JournalEntry, ...] = ()
    leaving: tuple[dict[str, str], ...] = ()
    faults: dict[str, int] = Field(default_factory=dict[str, int])
    revisions: tuple[RevisionRecord, ...] = ()

    def with_artifact(self, artifact: Artifact) -> Self:
        """Return a copy for this content; patches are values that the old content's hooks worked out, and end with it.

        The new content's hooks run anew.
        """
        if self.artifact == artifact:
            return self
        update: dict[str, Any] = {
            "artifact": artifact,
            "patches": (),
            "config_patches": (),
            "watched": None,
            "faults": {},
        }
        return self.model_copy(update=update)

    def revision(self, mark: str) -> RevisionRecord | None:
        """Return what the release with this mark was made from, None if it is not (or no longer) kept."""
        return next((one for one in self.revisions if one.mark == mark), None)

    def with_revision(self, made: RevisionRecord, *, keep: Collection[str]) -> Self:
        """Return a copy that also holds ``made``; of the others those whose marks are in ``keep``, the newest first.

        The oldest drop out beyond `REVISIONS_BYTES`: they must not keep a package from being recorded at all.
        """
        others = [one for one in self.revisions if one.mark in keep and one.mark != made.mark]
        kept, size = [made], len(made.model_dump_json())
        for one in reversed(others):
            size += len(one.model_dump_json())
            if size > REVISIONS_BYTES:
                break
            kept.append(one)
        return self.model_copy(update={"revisions": tuple(reversed(kept))})

    watched: WatchedRecord | None = None

    def hook_result(self, run_id: str) -> dict[str, Any] | None:
        """Return the result of a journalled hook run, or None if it is not (or no longer) journalled."""
        return next((entry.result for entry in self.journal if entry.run_id == run_id), None)

    def with_hook_run(self, run_id: str, result: dict[str, Any]) -> Self:
        """Return a copy whose journal ends with this run; the oldest runs drop out, a repeated id moves to the end."""
        others = tuple(entry for entry in self.journal if entry.run_id != run_id)
        journal = (*others, JournalEntry(run_id=run_id, result=result))[-JOURNAL_LIMIT:]
        return self.model_copy(update={"journal": journal})
