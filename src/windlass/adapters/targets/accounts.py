"""Service accounts of packages: made where Windlass makes them, and their tokens."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from windlass.adapters.kube.client import KubeClient
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.ids import MODULES_NAMESPACE
from windlass.domain.target import APPLICATION_ACCOUNT, Account
from windlass.domain.text.documents import DocumentError, parse_json
from windlass.ports.kube import Object, ObjectRef

TOKEN_SECONDS: Final = 3600
"""Life of a token; the API server gives at least 600. The last fifth is left to what was begun with it."""

FRESH: Final = 0.8

IDENTITY_LABEL: Final = "windlass.dev/identity"
"""Marks what Windlass makes for packages in namespaces with Applications; admission policies go by it."""

_RBAC: Final = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token and when to ask for the next one (seconds since the epoch).

    ``made`` says that the account or its binding was missing and has just been made.
    """

    value: str = field(repr=False)
    renew_at: float
    made: bool = False

    @property
    def account_uid(self) -> str:
        """The uid of the account that the token belongs to; empty if the token does not say."""
        try:
            claims: Any = parse_json(base64.urlsafe_b64decode(self.value.split(".")[1] + "=="))
            return str(claims["kubernetes.io"]["serviceaccount"]["uid"])
        except (IndexError, ValueError, KeyError, TypeError, DocumentError):
            return ""


class Accounts:
    """Makes the default account of Applications and asks for tokens.

    Args:
        kube: Windlass' own client on the management cluster.
        makes: whether it makes the default account of Applications, or leaves that to others.
        clock: seconds since the epoch.
    """

    def __init__(self, kube: KubeClient, *, makes: bool = True, clock: Callable[[], float] = time.time) -> None:
        self._makes = makes
        self._kube = kube
        self._clock = clock

    async def token(self, account: Account, *, ensure: bool) -> Token:
        """Return a new token; with ``ensure`` the default account of Applications is made if it is missing.

        Raises:
            TransientError: IDENTITY_MISSING, the account does not exist, or its namespace is being deleted.
            PermanentError: FORBIDDEN, Windlass may not make the account or ask for tokens.
        """
        made = False
        try:
            if (
                ensure
                and self._makes
                and account.name == APPLICATION_ACCOUNT
                and account.namespace != MODULES_NAMESPACE
            ):
                made = await self._ensure(account)
            return replace(await self._issue(account), made=made)
        except PermanentError as error:
            if error.reason is not Reason.API_REJECTED:
                raise
            # Admission policies go by caches: one may not have seen the first Application of a namespace yet.
            raise TransientError(
                Reason.IDENTITY_MISSING,
                f"{account} cannot be used: {error.message}",
                hint="it is tried again; see the admission policies of the installation (deploy/policies)",
            ) from None
        except TransientError as error:
            if error.reason is not Reason.API_REJECTED:
                raise
            raise TransientError(
                Reason.IDENTITY_MISSING,
                f"{account} cannot be used: {error.message}",
                hint=self._remedy(account),
            ) from None

    async def _ensure(self, account: Account) -> bool:
        """Make what is missing of the default account; return whether anything was."""
        made = False
        ref = _ref("v1", "ServiceAccount", account)
        if await self._kube.get(ref) is None:
            body: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
            await self._create(body, account)
            made = True
        # A binding to another role was made by somebody with the right to do so: it stays.
        if await self._kube.get(_ref(_RBAC, "RoleBinding", account)) is None:
            binding: Object = {
                "apiVersion": _RBAC,
                "kind": "RoleBinding",
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": APPLICATION_ACCOUNT,
                },
                "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
            }
            await self._create(binding, account)
            made = True
        return made

    async def _create(self, obj: Object, account: Account) -> None:
        metadata = {
            "name": account.name,
            "namespace": account.namespace,
            "labels": {"app.kubernetes.io/managed-by": "windlass", IDENTITY_LABEL: "package"},
        }
        try:
            await self._kube.create({**obj, "metadata": metadata})
        except TransientError as error:
            if error.reason is not Reason.API_CONFLICT:  # another worker was faster
                raise

    async def _issue(self, account: Account) -> Token:
        asked_at = self._clock()
        request: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        if account.namespace != MODULES_NAMESPACE:
            request["metadata"] = {"labels": {IDENTITY_LABEL: "package"}}
        answer = await self._kube.create_subresource(_ref("v1", "ServiceAccount", account), "token", request)
        status = cast("dict[str, str]", answer["status"])
        expires = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
        if expires <= asked_at:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the token of {account} is expired when it is issued",
                hint="set the clocks of this machine and of the API server",
            )
        return Token(value=status["token"], renew_at=asked_at + (expires - asked_at) * FRESH)

    @staticmethod
    def _remedy(account: Account) -> str:
        if account.name == APPLICATION_ACCOUNT:
            return "it is made again unless its namespace is being deleted"
        if account.namespace == MODULES_NAMESPACE:
            return "apply the roles of the installation (deploy/rbac), or create the service account"
        return "create the service account, or correct spec.target.serviceAccountName"


def _ref(api_version: str, kind: str, account: Account) -> ObjectRef:
    return ObjectRef(api_version=api_version, kind=kind, namespace=account.namespace, name=account.name)
