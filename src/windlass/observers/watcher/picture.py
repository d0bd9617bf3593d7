"""What the watcher knows of the cluster, with indexes: no event makes it look at every package."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from windlass.activities.inputs import IGNORED_ANNOTATIONS
from windlass.contracts.objects import PackageObject
from windlass.domain.ids import PackageKey, package_workflow_id
from windlass.domain.lifecycle.conditions import Type
from windlass.domain.target import Account
from windlass.domain.text.documents import is_list, is_object
from windlass.ports.kube import Object, ObjectRef

CONTENT_BYTES: Final = 32 << 20
"""Bytes of ConfigMaps and Secrets that are kept. They belong to other people and may have 1 MiB each; what does not fit
is read again when it is needed."""


def slim(obj: Object) -> Object:
    """Return what the watcher needs of a package's object, which it keeps for every package of the installation.

    The settings, managedFields and most of the status are left out: a change of the settings moves the generation. What
    has another shape than the schema allows is left as it is, for whoever parses it to refuse.
    """
    metadata, spec, status = obj.get("metadata"), obj.get("spec"), obj.get("status")
    slimmed = dict(obj)
    if is_object(metadata):
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        if is_object(annotations := kept.get("annotations")):
            kept["annotations"] = {name: text for name, text in annotations.items() if name not in IGNORED_ANNOTATIONS}
        slimmed["metadata"] = kept
    if is_object(spec):
        slimmed["spec"] = {name: value for name, value in spec.items() if name != "settings"}
    if is_object(status):
        kept = {name: status[name] for name in ("phase", "conditions", "seen") if name in status}
        if is_list(conditions := kept.get("conditions")):
            kept["conditions"] = [one for one in conditions if not is_object(one) or one.get("type") == Type.READY]
        slimmed["status"] = kept
    return slimmed


type _Read = tuple[Account, ObjectRef]
"""Who read what."""


class Picture:
    """Packages, repositories, and what packages refer to."""

    def __init__(self) -> None:
        self.repositories: dict[str, Object] = {}
        self._packages: dict[PackageKey, PackageObject] = {}
        self._ids: dict[str, PackageKey] = {}
        self._references: dict[ObjectRef, dict[PackageKey, None]] = {}
        self._repository_users: dict[str, dict[PackageKey, None]] = {}
        self._homes: dict[str, dict[PackageKey, None]] = {}
        self._contents: OrderedDict[_Read, Object | None] = OrderedDict()
        self._sizes: dict[_Read, int] = {}
        self._readers: dict[ObjectRef, set[Account]] = {}
        self._size = 0

    @property
    def packages(self) -> Mapping[PackageKey, PackageObject]:
        """All packages."""
        return MappingProxyType(self._packages)

    @property
    def size(self) -> int:
        """Bytes of the contents that are kept."""
        return self._size

    def put(self, key: PackageKey, package: PackageObject) -> None:
        """Take a package as it now is."""
        before = self._packages.get(key)
        if before is not None:
            self._unlink(key, before, keep=set(_references(package)))
        self._packages[key] = package
        self._ids[package_workflow_id(key)] = key
        self._homes.setdefault(key.home, {})[key] = None
        self._repository_users.setdefault(package.spec.package.repository, {})[key] = None
        for ref in _references(package):
            self._references.setdefault(ref, {})[key] = None

    def pop(self, key: PackageKey) -> PackageObject | None:
        """Forget a package; return it as it was known."""
        package = self._packages.pop(key, None)
        if package is not None:
            del self._ids[package_workflow_id(key)]
            del self._homes[key.home][key]
            if not self._homes[key.home]:
                del self._homes[key.home]
            self._unlink(key, package)
        return package

    def users_of(self, ref: ObjectRef) -> list[PackageKey]:
        """Return the packages whose settings come from this ConfigMap or Secret."""
        return list(self._references.get(ref, ()))

    def users_of_repository(self, name: str) -> list[PackageKey]:
        """Return the packages that come from this repository."""
        return list(self._repository_users.get(name, ()))

    def packages_of(self, namespace: str) -> list[PackageKey]:
        """Return the packages whose references live in this namespace."""
        return list(self._homes.get(namespace, ()))

    def not_among(self, ids: set[str]) -> list[PackageKey]:
        """Return the packages whose workflow is not among these ids."""
        return [self._ids[id_] for id_ in self._ids.keys() - ids]

    def unknown(self, ids: Iterable[str]) -> set[str]:
        """Return those of these workflow ids that belong to no package here."""
        return set(ids) - self._ids.keys()

    # -- contents ----------------------------------------------------------------------------------------------------

    def has_content(self, account: Account, ref: ObjectRef) -> bool:
        """Say whether what this account read of a ConfigMap or Secret is kept, or known to be absent."""
        return (account, ref) in self._contents

    def content(self, account: Account, ref: ObjectRef) -> Object | None:
        """Return a ConfigMap or Secret that is kept, as this account read it; None if it is known to be absent.

        What one account may read is never given to another one.

        Raises:
            KeyError: it is not kept.
        """
        self._contents.move_to_end((account, ref))
        return self._contents[account, ref]

    def keep_content(self, account: Account, ref: ObjectRef, obj: Object | None) -> None:
        """Keep a ConfigMap or Secret if any package refers to it; what was used longest ago makes room."""
        self._forget(account, ref)
        size = _size(obj)
        if ref not in self._references or size > CONTENT_BYTES:
            return
        while self._contents and self._size + size > CONTENT_BYTES:
            self._forget(*next(iter(self._contents)))
        self._contents[account, ref], self._sizes[account, ref] = obj, size
        self._readers.setdefault(ref, set()).add(account)
        self._size += size

    def drop_content(self, ref: ObjectRef) -> None:
        """Forget a ConfigMap or Secret: it is read again when it is needed."""
        for account in list(self._readers.get(ref, ())):
            self._forget(account, ref)

    def contents(self, kind: str, namespace: str) -> list[ObjectRef]:
        """Return what is referred to of one kind in one namespace, whether it is kept or not."""
        return [ref for ref in self._references if (ref.kind, ref.namespace) == (kind, namespace)]

    def _forget(self, account: Account, ref: ObjectRef) -> None:
        if (account, ref) not in self._contents:
            return
        del self._contents[account, ref]
        self._size -= self._sizes.pop((account, ref))
        self._readers[ref].discard(account)
        if not self._readers[ref]:
            del self._readers[ref]

    def _unlink(self, key: PackageKey, package: PackageObject, keep: set[ObjectRef] | None = None) -> None:
        repository = package.spec.package.repository
        users = self._repository_users[repository]
        del users[key]
        if not users:
            del self._repository_users[repository]
        for ref in set(_references(package)) - (keep or set()):
            users = self._references[ref]
            del users[key]
            if not users:
                del self._references[ref]
                self.drop_content(ref)


def _references(package: PackageObject) -> list[ObjectRef]:
    namespace = package.home
    return [
        ObjectRef(api_version="v1", kind=entry.kind, namespace=namespace, name=entry.name)
        for entry in package.spec.values_from
    ]


def _size(obj: Object | None) -> int:
    """Return about how many bytes the data of an object take."""
    data = cast("dict[str, Any]", (obj or {}).get("data") or {})
    return 200 + sum(len(name) + len(str(text)) for name, text in data.items())
