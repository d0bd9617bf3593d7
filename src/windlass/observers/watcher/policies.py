"""Whether the admission policies are in effect that decide who may ask for what.

Without them everybody who may create an ActionRequest could ask for anything in anybody's name, so requests are refused
while a policy or its binding is missing, and those that were created before.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import Any, Final, cast

from windlass.ports.kube import Kube, Object, ObjectRef

POLICIES: Final = ("windlass-actions",)
"""Of ``deploy/policies/actions.yaml``; that the spec does not change is held by the definition as well."""

API_VERSION: Final = "admissionregistration.k8s.io/v1"
RECHECK: Final = 5.0
"""Seconds for which an answer is good."""

SETTLING: Final = timedelta(seconds=5)
"""Until a new policy acts in every API server (measured: 1 to 2 s in one)."""

HINT: Final = "a cluster administrator has to apply it: `kubectl apply --server-side -k deploy`, or `windlass up`"


class ActionPolicies:
    """Looks the policies up, and remembers the answer for `RECHECK`.

    Args:
        kube: may ``get`` policies and their bindings.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._looking = asyncio.Lock()
        self._known: tuple[str, datetime | None] = ("", None)
        self._until = 0.0

    async def refusal(self, created: datetime) -> str:
        """Say why a request that was created then cannot be trusted; empty if it can.

        Raises:
            WindlassError: the cluster does not tell.
        """
        async with self._looking:
            if time.monotonic() >= self._until:
                self._known = await self._look()
                self._until = time.monotonic() + RECHECK
        missing, since = self._known
        if missing:
            return f"{missing}, so nobody has checked who asks: {HINT}"
        if since is not None and created < since + SETTLING:
            return "it was created before the policy windlass-actions was in effect, so nobody has checked who asks"
        return ""

    async def _look(self) -> tuple[str, datetime | None]:
        newest: datetime | None = None
        for name in POLICIES:
            policy = await self._get("ValidatingAdmissionPolicy", name)
            if policy is None:
                return f"the ValidatingAdmissionPolicy {name} is missing", None
            if _spec(policy).get("failurePolicy") == "Ignore":
                return f"the ValidatingAdmissionPolicy {name} ignores failures", None
            binding = await self._get("ValidatingAdmissionPolicyBinding", name)
            if binding is None:
                return f"the ValidatingAdmissionPolicyBinding {name} is missing", None
            bound = _spec(binding)
            if bound.get("policyName") != name or "Deny" not in (bound.get("validationActions") or ()):
                return f"the ValidatingAdmissionPolicyBinding {name} does not deny what the policy refuses", None
            for one in (policy, binding):
                since = datetime.fromisoformat(one["metadata"]["creationTimestamp"])
                newest = since if newest is None else max(newest, since)
        return "", newest

    async def _get(self, kind: str, name: str) -> Object | None:
        return await self._kube.get(ObjectRef(api_version=API_VERSION, kind=kind, name=name))


def _spec(obj: Object) -> dict[str, Any]:
    return cast("dict[str, Any]", obj.get("spec") or {})
