"""`ports.HookAccess`: hooks act as a service account of their own, with a token that expires."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

import yaml

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.ports.kube import Object, ObjectRef

DEFAULT_ROLE: Final = "windlass-hooks"
DEFAULT_CLUSTER_ROLE: Final = "windlass-module-hooks"
TOKEN_SECONDS: Final = 3600
"""Life of a token. The API server gives at least 600; the last fifth is left to hooks that are running."""

_FRESH: Final = 0.8
_FIELD_MANAGER: Final = "windlass-hooks"
_RBAC: Final = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class _Issued:
    kubeconfig: str = field(repr=False)
    renew_at: float


class KubeHookAccess:
    """Hands out kubeconfigs of per-package service accounts.

    Args:
        kube: the client that makes the accounts; the kubeconfigs point at its API server.
        role: the ClusterRole that hooks get in their package's namespace. It belongs to the installation.
        cluster_role: the ClusterRole that hooks of modules get beside it, for the whole cluster.
        labels: put on the service account and the role binding.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        kube: KubeClient,
        *,
        role: str = DEFAULT_ROLE,
        cluster_role: str = DEFAULT_CLUSTER_ROLE,
        labels: dict[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube = kube
        self._role = role
        self._cluster_role = cluster_role
        self._labels = {"app.kubernetes.io/managed-by": "windlass"} | (labels or {})
        self._clock = clock
        self._issued: dict[tuple[str, str], _Issued] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def kubeconfig(self, namespace: str, account: str, *, cluster_wide: bool = False) -> str:
        """Ensure account and bindings and return a kubeconfig; no request while its token is fresh.

        Raises:
            PermanentError: FORBIDDEN (actor admin), the ClusterRole is absent or we may not grant it.
            TransientError: the API server cannot be asked, or the namespace is not there.
        """
        key = (namespace, account)
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._issued.get(key)
            if known is None or self._clock() >= known.renew_at:
                await self._ensure(namespace, account, cluster_wide=cluster_wide)
                known = self._issued[key] = await self._issue(namespace, account)
            return known.kubeconfig

    async def remove(self, namespace: str, account: str, *, cluster_wide: bool = False) -> None:
        """Delete the bindings, then the account, which ends its tokens. Absent is fine."""
        key = (namespace, account)
        async with self._locks.setdefault(key, asyncio.Lock()):
            self._issued.pop(key, None)
            if cluster_wide:
                await self._kube.delete(ObjectRef(api_version=_RBAC, kind="ClusterRoleBinding", name=account))
            await self._kube.delete(ObjectRef(api_version=_RBAC, kind="RoleBinding", namespace=namespace, name=account))
            await self._kube.delete(_account(namespace, account))
        self._locks.pop(key, None)

    async def _ensure(self, namespace: str, account: str, *, cluster_wide: bool) -> None:
        for role in (self._role, self._cluster_role) if cluster_wide else (self._role,):
            await self._require(role)
        metadata = {"name": account, "namespace": namespace, "labels": self._labels}
        await self._kube.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata,
                "automountServiceAccountToken": False,
            },
            field_manager=_FIELD_MANAGER,
        )
        await self._bind(_binding(self._role, account, namespace, self._labels, bound_in=namespace))
        if cluster_wide:
            await self._bind(_binding(self._cluster_role, account, namespace, self._labels, bound_in=""))

    async def _require(self, role: str) -> None:
        ref = ObjectRef(api_version=_RBAC, kind="ClusterRole", name=role)
        if await self._kube.get(ref) is None:
            raise PermanentError(
                Reason.FORBIDDEN,
                f"hooks have no rights: {ref} does not exist",
                hint="apply the roles of the installation (deploy/), or name another ClusterRole in its settings",
                actor=Actor.ADMIN,
            )

    async def _bind(self, binding: Object) -> None:
        """Apply the binding; its role cannot be changed in place, so one with another role is made anew."""
        metadata = cast("dict[str, str]", binding["metadata"])
        ref = ObjectRef(
            api_version=_RBAC,
            kind=binding["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
        )
        found = await self._kube.get(ref)
        if found is not None and found["roleRef"]["name"] != binding["roleRef"]["name"]:
            await self._kube.delete(ref, uid=found["metadata"]["uid"])
        await self._kube.apply(binding, field_manager=_FIELD_MANAGER)

    async def _issue(self, namespace: str, account: str) -> _Issued:
        asked_at = self._clock()
        answer = await self._kube.create_subresource(
            _account(namespace, account),
            "token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        status = cast("dict[str, str]", answer["status"])
        expires = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        if expires <= asked_at:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the token of service account {account} in {namespace} is expired as it comes",
                hint="set the clocks of this machine and of the API server",
            )
        return _Issued(
            kubeconfig=_render(self._kube.access, namespace, status["token"]),
            renew_at=asked_at + (expires - asked_at) * _FRESH,
        )


def _binding(role: str, account: str, namespace: str, labels: dict[str, str], *, bound_in: str) -> Object:
    """Return the binding of a service account to a ClusterRole in one namespace, or everywhere if that is empty."""
    where = {"namespace": bound_in} if bound_in else {}
    return {
        "apiVersion": _RBAC,
        "kind": "RoleBinding" if bound_in else "ClusterRoleBinding",
        "metadata": {"name": account, "labels": labels, **where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _account(namespace: str, name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name=name)


def _render(access: ApiAccess, namespace: str, token: str) -> str:
    cluster: dict[str, Any] = {"server": access.server}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode()).decode()
    optional: dict[str, Any] = {
        "insecure-skip-tls-verify": access.insecure,
        "tls-server-name": access.server_name,
        "proxy-url": access.proxy,
    }
    cluster |= {key: value for key, value in optional.items() if value}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "hook",
            "clusters": [{"name": "hook", "cluster": cluster}],
            "users": [{"name": "hook", "user": {"token": token}}],
            "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "hook", "namespace": namespace}}],
        },
        sort_keys=False,
    )
