"""Compares the objects of a release with its manifest, and puts back what others have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from temporalio import activity

from windlass.activities.content import Contents
from windlass.activities.heartbeat import heartbeating
from windlass.activities.inputs import object_ref
from windlass.activities.placing import release_of, required
from windlass.activities.releases.ledger import RecordLedger
from windlass.contracts.drift import DriftSpec
from windlass.contracts.objects import parse_package
from windlass.contracts.steps import DriftRequest, DriftResult
from windlass.domain.drift import comparison as drift
from windlass.domain.drift.comparison import DIFFERENCES_KEPT, RELEASE_KIND, Change, Difference, Rule
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.domain.lifecycle.releases import DEPLOYED
from windlass.ports.helm import Helm, ReleaseRef
from windlass.ports.kube import Kube, Object, ObjectRef
from windlass.ports.targets import Role, Targets

FIELD_MANAGER: Final = "windlass-drift"
"""Of applies that are never kept: it owns nothing, so that such an apply takes no field away."""

TRIES: Final = 3
"""An object that changes between reading and writing is read again."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One object: what is there, what the manifest makes of it, and where they differ; ``live`` is None if it is gone.

    Both objects may hold secrets; ``differences`` never do. ``refused`` says why the API server would not apply the
    manifest's object: the comparison is approximate then, and nothing is put back by it.
    """

    ref: ObjectRef
    live: Object | None
    wanted: Object
    differences: tuple[Difference, ...]
    refused: str = ""


async def compare(kube: Kube, ref: ObjectRef, expected: Object, rules: Sequence[Rule] = ()) -> Compared:
    """Compare one object with what the manifest says of it.

    Args:
        kube: the cluster; needs the right to patch the object, although nothing is kept.
        ref: the object.
        expected: the object as the manifest has it, with Helm's marks.
        rules: what to ignore.

    Raises:
        WindlassError: the object cannot be read.
    """
    for attempt in range(TRIES):
        live = await kube.get(ref)
        if live is None:
            gone = () if drift.is_expendable(expected) else (_difference(ref, Change.ABSENT),)
            return Compared(ref=ref, live=None, wanted=expected, differences=gone)
        if live["metadata"].get("deletionTimestamp"):
            return Compared(ref=ref, live=live, wanted=live, differences=())  # its end is told by itself
        refused = ""
        try:
            wanted = await kube.apply(_pinned(expected, live), field_manager=FIELD_MANAGER, dry_run=True)
        except WindlassError as error:
            if error.reason is Reason.API_CONFLICT and attempt + 1 < TRIES:
                continue
            refused = error.message
            wanted = drift.approximated(live, expected)
        wanted = drift.without_ignored(wanted, live, rules)
        found = tuple(
            _difference(ref, change, path=path, manager=drift.manager_of(live, path))
            for path, change in drift.differing(live, wanted)
        )
        return Compared(ref=ref, live=live, wanted=wanted, differences=found, refused=refused)
    raise AssertionError("the last try returns or raises")


def foreign(release: ReleaseRef) -> Difference:
    """Return the difference of a release of which somebody else has made a newer revision."""
    return Difference(kind=RELEASE_KIND, namespace=release.namespace, name=release.name, change=Change.CHANGED)


def result(
    revision: int, differences: Iterable[Difference], corrected: Iterable[Difference] = (), unclear: Iterable[str] = ()
) -> DriftResult:
    """Return a bounded result."""
    found = sorted(differences)
    return DriftResult(
        revision=revision,
        differences=tuple(found[:DIFFERENCES_KEPT]),
        total=len(found),
        digest=drift.digest(found),
        corrected=tuple(sorted(corrected)[:DIFFERENCES_KEPT]),
        unclear=tuple(sorted(unclear)[:DIFFERENCES_KEPT]),
    )


class DriftActivities:
    """What is put back is written as the package, by a client whose name managedFields show."""

    def __init__(self, *, kube: Kube, targets: Targets, helm: Helm, contents: Contents) -> None:
        self._kube = kube
        self._contents = contents
        self._targets = targets
        self._helm = helm

    @activity.defn(name="drift.check")
    async def check(self, request: DriftRequest) -> DriftResult:
        """Compare every object of the newest revision, if it is ours; with ``correct`` put back what differs.

        An object that cannot be compared or put back is told of and holds nothing else up.
        """
        async with heartbeating() as beat:
            obj = await self._kube.get(object_ref(request.key))
            placement = required(request.placement, request.key)
            state = await self._contents.state(request.key, request.uid, request.record)
            ledger = RecordLedger(self._contents, request.key, state, known=request.known)
            try:
                manifest = await self._helm.manifest(release_of(placement), ledger)
            except PermanentError as error:
                if error.reason is not Reason.RELEASE_FOREIGN:
                    raise
                return DriftResult(foreign=True)
            if obj is None or obj["metadata"]["uid"] != request.uid or manifest is None:
                return DriftResult()
            if request.revision and manifest.release.revision != request.revision:
                return result(request.revision, [foreign(manifest.release.ref)])
            rules = (parse_package(request.key.kind, obj).spec.drift or DriftSpec()).rules
            revision = manifest.release.revision
            if manifest.release.status != DEPLOYED:
                return result(revision, (), unclear=[f"revision {revision} is {manifest.release.status}"])
            left: list[Difference] = []
            corrected: list[Difference] = []
            unclear: list[str] = []
            async with self._targets.acting(placement.target) as acting:
                kube = await acting.kube(Role.DRIFT)
                for ref, expected in manifest.objects.items():
                    beat.details = str(ref)
                    try:
                        found, put_back = await self._settle(kube, ref, expected, rules, request)
                    except WindlassError as error:
                        unclear.append(_told(ref, error))
                        continue
                    left += found
                    corrected += put_back
        return result(revision, left, corrected, unclear)

    async def _settle(
        self, kube: Kube, ref: ObjectRef, expected: Object, rules: Sequence[Rule], request: DriftRequest
    ) -> tuple[Sequence[Difference], Sequence[Difference]]:
        """Return what differs now and what was put back."""
        for _ in range(TRIES):
            compared = await compare(kube, ref, expected, rules)
            if compared.live is None or not compared.differences or not request.correct:
                return compared.differences, ()
            if compared.refused:
                raise PermanentError(Reason.API_REJECTED, compared.refused)
            kept = tuple(one for one in compared.differences if one.field in request.held)
            wanted = drift.without_ignored(compared.wanted, compared.live, [_only(one) for one in kept])
            patch = drift.merge_patch(compared.live, wanted)
            if not patch:
                return kept, ()
            version = compared.live["metadata"]["resourceVersion"]
            metadata = {**patch.get("metadata", {}), "resourceVersion": version}
            try:
                stored = await kube.patch(ref, {**patch, "metadata": metadata}, kind="merge")
            except WindlassError as error:
                if error.reason is Reason.API_CONFLICT:
                    continue
                raise PermanentError(error.reason, f"not put back: {error.message}", hint=error.hint) from error
            if stored is not None:
                return kept, tuple(one for one in compared.differences if one not in kept)
        raise TransientError(Reason.API_CONFLICT, "it is being changed all the time", hint="it is compared again")


def _difference(ref: ObjectRef, change: Change, *, path: str = "", manager: str = "") -> Difference:
    return Difference(kind=ref.kind, namespace=ref.namespace, name=ref.name, path=path, change=change, manager=manager)


def _told(ref: ObjectRef, error: WindlassError) -> str:
    # What the API server says about a Secret may quote it.
    text = error.reason.value if ref.kind == "Secret" else error.message
    return f"{ref}: {text}"[:500]


def _only(one: Difference) -> Rule:
    return Rule(kind=one.kind, name=one.name, namespace=one.namespace, paths=(one.path,))


def _pinned(expected: Object, live: Object) -> Object:
    """Return the object to apply: what the manifest sets, on this very state of the live object."""
    body: Object = drift.without_nulls({key: value for key, value in expected.items() if key != "status"})
    version = live["metadata"]["resourceVersion"]
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
