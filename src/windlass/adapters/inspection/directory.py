"""Where the workers' inspect endpoints are: one ConfigMap that everybody with a login can read.

It holds the certificate authority and the address of each worker. Only workers (and cluster administrators) can write
it, so what it says can be trusted as far as the API server can.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, cast

from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import INSTALLATION_LABEL, inspect_name
from windlass.ports.kube import Kube, Object, ObjectRef

AUTHORITY: Final = "ca.crt"
_MEMBER: Final = "member."
_TRIES: Final = 5
"""Of a write that meets the writes of other workers."""


@dataclass(frozen=True, kw_only=True)
class Directory:
    """What the ConfigMap says: the authority's certificate (PEM), and ``host:port`` of each worker."""

    authority_pem: str
    addresses: Mapping[str, str]


def _ref(namespace: str, installation: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=inspect_name(installation))


async def read(kube: Kube, namespace: str, installation: str) -> Directory | None:
    """Return the directory; None if no worker has written one.

    Raises:
        WindlassError: it cannot be read.
    """
    found = await kube.get(_ref(namespace, installation))
    return None if found is None else _directory(found)


async def publish(
    kube: Kube, namespace: str, installation: str, authority_pem: str, member: str, address: str, alive: Collection[str]
) -> None:
    """Say where a worker is, and drop workers that are not ``alive``; nothing is written if that is known already.

    Raises:
        TransientError: API_CONFLICT, other workers keep writing; or the API server does not answer.
        PermanentError: FORBIDDEN.
    """
    await _change(kube, namespace, installation, authority_pem, {member: address}, {*alive, member})


async def withdraw(kube: Kube, namespace: str, installation: str, member: str) -> None:
    """Drop a worker that ends.

    Raises:
        WindlassError: as `publish`.
    """
    found = await read(kube, namespace, installation)
    if found is not None and member in found.addresses:
        others = set(found.addresses) - {member}
        await _change(kube, namespace, installation, found.authority_pem, {}, others)


async def _change(
    kube: Kube, namespace: str, installation: str, authority_pem: str, mine: Mapping[str, str], keep: Collection[str]
) -> None:
    ref = _ref(namespace, installation)
    for attempt in range(_TRIES):
        found = await kube.get(ref)
        before: Mapping[str, str] = _directory(found).addresses if found else {}
        addresses = {name: at for name, at in {**before, **mine}.items() if name in keep}
        data = {AUTHORITY: authority_pem} | {f"{_MEMBER}{name}": at for name, at in sorted(addresses.items())}
        if found is not None and found.get("data") == data:
            return
        try:
            if found is None:
                metadata = {"namespace": namespace, "name": ref.name, "labels": {INSTALLATION_LABEL: installation}}
                await kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
            else:
                await kube.replace({"apiVersion": "v1", "kind": "ConfigMap", **found, "data": data})
        except TransientError as error:
            if error.reason is not Reason.API_CONFLICT or attempt + 1 == _TRIES:
                raise
        else:
            return


def _directory(found: Object) -> Directory:
    data = cast("dict[str, str]", found.get("data") or {})
    return Directory(
        authority_pem=data.get(AUTHORITY, ""),
        addresses={key.removeprefix(_MEMBER): at for key, at in data.items() if key.startswith(_MEMBER) and at},
    )
