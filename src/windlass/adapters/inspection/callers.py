"""Who asks, by TokenReview, and whether they may, by SubjectAccessReview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import GROUP, Kind, PackageKey
from windlass.ports.kube import Kube, Object

MAX_TOKEN: Final = 16 * 1024
"""Bytes. Tokens of identity providers with many groups reach some 8 KiB."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A user as the API server knows them: what a SubjectAccessReview wants to know."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Callers:
    """Asks the API server about callers.

    Args:
        kube: may create TokenReviews and SubjectAccessReviews.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def authenticated(self, token: str) -> Caller:
        """Return whose token it is.

        Raises:
            PermanentError: UNAUTHORIZED, it is nobody's, or no longer.
            TransientError: the API server does not answer.
        """
        if not token or len(token) > MAX_TOKEN:
            raise _unauthorized()
        body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = cast("Object", (await self._kube.create(body)).get("status") or {})
        user = cast("Object", status.get("user") or {})
        name = str(user.get("username") or "")
        if status.get("authenticated") is not True or not name:
            raise _unauthorized()
        return Caller(
            name=name,
            uid=str(user.get("uid") or ""),
            groups=tuple(user.get("groups") or ()),
            extra=cast("Object", user.get("extra") or {}),
        )

    async def require(self, caller: Caller, key: PackageKey, verb: str, subresource: str = "") -> None:
        """Make sure that the caller has a verb on a package.

        Raises:
            PermanentError: FORBIDDEN, they have not; says which right is missing, whether or not the package exists.
            TransientError: the API server does not answer.
        """
        plural = "modules" if key.kind is Kind.MODULE else "applications"
        resource = f"{plural}/{subresource}" if subresource else plural
        attributes = {"group": GROUP, "resource": plural, "subresource": subresource, "name": key.name, "verb": verb}
        if key.namespace:
            attributes["namespace"] = key.namespace
        spec: Object = {"user": caller.name, "groups": list(caller.groups), "resourceAttributes": attributes}
        if caller.uid:
            spec["uid"] = caller.uid
        if caller.extra:
            spec["extra"] = dict(caller.extra)
        review = await self._kube.create(
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        )
        if cast("Object", review.get("status") or {}).get("allowed") is not True:
            where = f" in namespace {key.namespace}" if key.namespace else ""
            raise PermanentError(
                Reason.FORBIDDEN,
                f"{caller.name} may not {verb} {resource}.{GROUP} {key.name}{where}",
                hint="the ClusterRole windlass-operate allows inspecting, windlass-admin also changing",
                actor=Actor.ADMIN,
            )


def _unauthorized() -> PermanentError:
    return PermanentError(
        Reason.UNAUTHORIZED,
        "the API server does not know the token",
        hint="log in again; `kubectl auth whoami` shows who you are",
    )
