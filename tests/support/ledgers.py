"""What is known of Helm's records, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.adapters.helm.client import HelmClient
from windlass.domain.digests import keyed_digest
from windlass.domain.lifecycle.provenance import Known
from windlass.ports.helm import Ledger, Manifest, ReleaseOutcome, ReleaseRef, ReleaseRequest, Told
from windlass.ports.kube import ObjectRef

KEY = b"a key of tests only"


@dataclass
class MemoryLedger:
    """A ledger that tests read and write; ``notes`` is all that was ever noted."""

    known: Known = field(default_factory=Known)
    adopt: str | None = None
    began: ReleaseRequest | None = None
    notes: list[Known] = field(default_factory=list[Known])

    def digest(self, content: bytes) -> str:
        return keyed_digest("release", content, KEY)

    async def note(self, known: Known) -> None:
        self.known = known
        self.notes.append(known)

    async def unfinished(self) -> ReleaseRequest | None:
        return self.began


class RememberingHelm(HelmClient):
    """A client that remembers what it has made, as the activities do."""

    ledgers: dict[ReleaseRef, MemoryLedger]

    def ledger(self, ref: ReleaseRef) -> MemoryLedger:
        """Return what is known of the records of ``ref``."""
        if "ledgers" not in self.__dict__:
            self.ledgers = {}
        return self.ledgers.setdefault(ref, MemoryLedger())

    async def upgrade(self, request: ReleaseRequest, ledger: Ledger | None = None) -> ReleaseOutcome:
        mine = self.ledger(request.ref)
        mine.began = mine.began or request
        outcome = await super().upgrade(request, ledger or mine)
        mine.began = request
        return outcome

    async def uninstall(
        self, ref: ReleaseRef, ledger: Ledger | None = None, *, owner: str, told: Told | None = None
    ) -> tuple[ObjectRef, ...]:
        return await super().uninstall(ref, ledger or self.ledger(ref), owner=owner, told=told)

    async def manifest(self, ref: ReleaseRef, ledger: Ledger | None = None) -> Manifest | None:
        return await super().manifest(ref, ledger)
