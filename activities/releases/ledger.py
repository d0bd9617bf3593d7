"""`ports.helm.Ledger`: what the state Secret knows of Helm's records of one release."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from windlass.activities.content import Contents, State
from windlass.contracts.record import PackageRecord
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle.provenance import Known
from windlass.ports.helm import ReleaseRequest

type Change = Callable[[PackageRecord], PackageRecord]
type Unfinished = Callable[[PackageRecord], Awaitable[ReleaseRequest | None]]


def _same(record: PackageRecord) -> PackageRecord:
    return record


async def _none(record: PackageRecord) -> ReleaseRequest | None:
    del record
    return None


class RecordLedger:
    """Keeps what is known in the state Secret of a package.

    Args:
        contents: reads and writes the state Secret.
        key: the package.
        state: the state Secret as it was last read.
        known: what the lifecycle carries; it counts if the state Secret was lost.
        adopt: which records of others a person has accepted; None for none.
        change: what else is written down together with the number of a revision about to be made.
        unfinished: returns what the release in a record was made from.
    """

    def __init__(
        self,
        contents: Contents,
        key: PackageKey,
        state: State,
        *,
        known: Known,
        adopt: str | None = None,
        change: Change = _same,
        unfinished: Unfinished = _none,
    ) -> None:
        stored = state.record.known
        self._contents = contents
        self._key = key
        self._state = state
        self._before = state.record
        self._known = replace(known, told=stored.told) if stored.nothing else stored
        self._adopt = adopt
        self._change = change
        self._unfinished = unfinished

    @property
    def state(self) -> State:
        """The state Secret as it was last written."""
        return self._state

    @property
    def known(self) -> Known:
        """See `ports.helm.Ledger`."""
        return self._known

    @property
    def adopt(self) -> str | None:
        """See `ports.helm.Ledger`."""
        return self._adopt

    def digest(self, content: bytes) -> str:
        """See `ports.helm.Ledger`."""
        return self._contents.release_record_digest(content)

    async def note(self, known: Known) -> None:
        """See `ports.helm.Ledger`."""
        begins = not known.told  # people are told instead of beginning anything

        def noted(record: PackageRecord) -> PackageRecord:
            return (self._change(record) if begins else record).model_copy(update={"known": known})

        self._state = await self._contents.update(self._key, self._before.uid, self._state.ref, noted)
        self._known = known

    async def unfinished(self) -> ReleaseRequest | None:
        """See `ports.helm.Ledger`."""
        return await self._unfinished(self._before)
