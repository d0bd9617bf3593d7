"""Reads what objects of packages refer to by name, as the accounts of the packages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from windlass.contracts.objects import PackageObject
from windlass.domain.target import Account, Placement, Target
from windlass.ports.kube import Object, ObjectRef
from windlass.ports.targets import Acting, Role, Targets


class References:
    """ConfigMaps and Secrets beside an object, read with the rights of its package and no others.

    Args:
        targets: the identities.
        allow_defaults: whether objects that name no service account get the default one.
    """

    def __init__(self, targets: Targets, *, allow_defaults: bool = True) -> None:
        self._targets = targets
        self._allow_defaults = allow_defaults

    def placement(self, package: PackageObject) -> Placement:
        """Return where the package is installed and as whom.

        Raises:
            PermanentError: TARGET_REFUSED, names the field and what would be allowed.
        """
        return package.placement(allow_defaults=self._allow_defaults)

    def known(self, placement: Placement) -> bool:
        """Say whether the package can be worked on in its place right away."""
        return not placement.create_namespace and self._targets.known(placement.target)

    def acting_as(self, account: Account) -> AbstractAsyncContextManager[Acting]:
        """Act as an account in its own namespace; see `ports.Targets.reader`."""
        return self._targets.reader(Target(account=account, namespace=account.namespace))

    async def get(self, package: PackageObject, ref: ObjectRef) -> Object | None:
        """Return an object of the package's home namespace, None if there is none.

        Raises:
            TransientError, PermanentError: TARGET_REFUSED, IDENTITY_MISSING and FORBIDDEN among them.
        """
        async with self._targets.reader(self.placement(package).target) as acting:
            return await (await acting.kube(Role.INPUTS)).get(ref)
