"""Which packages have which objects in their releases, kept so that no question takes a look at all of them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from windlass.domain.drift.watching import KindOf
from windlass.domain.ids import PackageKey
from windlass.ports.kube import ObjectRef


class Owners:
    """The objects of the releases that this process looks after, by kind.

    A manifest may name an object that another release has too, by mistake or in malice. Every package that names an
    object is told of it, so nobody takes an object away from another package.
    """

    def __init__(self) -> None:
        self._kinds: dict[KindOf, dict[ObjectRef, tuple[PackageKey, ...]]] = {}

    def __contains__(self, ref: ObjectRef) -> bool:
        """Say whether any package has this object."""
        return ref in self._kinds.get(kind_of(ref), {})

    def of(self, ref: ObjectRef) -> tuple[PackageKey, ...]:
        """Return the packages that have this object."""
        return self._kinds.get(kind_of(ref), {}).get(ref, ())

    def objects(self, kind: KindOf) -> set[ObjectRef]:
        """Return a copy of all objects of one kind."""
        return set(self._kinds.get(kind, {}))

    def replace(self, key: PackageKey, before: AbstractSet[ObjectRef], after: AbstractSet[ObjectRef]) -> set[ObjectRef]:
        """Let a package have ``after`` instead of ``before``; return the objects that no package has any more."""
        left: set[ObjectRef] = set()
        for ref in before - after:
            refs = self._kinds[kind_of(ref)]
            others = tuple(one for one in refs[ref] if one != key)
            if others:
                refs[ref] = others
                continue
            left.add(ref)
            del refs[ref]
            if not refs:
                del self._kinds[kind_of(ref)]
        for ref in after - before:
            refs = self._kinds.setdefault(kind_of(ref), {})
            refs[ref] = (*refs.get(ref, ()), key)
        return left

    def uses(self, kind: KindOf) -> bool:
        """Say whether any package has an object of this kind."""
        return kind in self._kinds


def kind_of(ref: ObjectRef) -> KindOf:
    """Return API version and kind of an object."""
    return ref.api_version, ref.kind
