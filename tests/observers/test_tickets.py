"""Tickets for the inspect endpoint: whose they are, for what, and until when."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from support import rights
from support.fake_kube import CREATED_AT, FakeKube
from windlass.contracts.inspection import CHANGE
from windlass.domain.errors import PermanentError, Reason
from windlass.domain.ids import API_VERSION, Kind, PackageKey
from windlass.observers.inspection.tickets import SKEW, VALID, Tickets, proof_of
from windlass.ports.kube import Object

WEB = PackageKey(installation="it", namespace="shop", name="web")
MADE = datetime.fromisoformat(CREATED_AT)
SECRET = "s" * 43


def cluster(*, policies: bool = True, **spec: str) -> FakeKube:
    """Return a cluster with the ticket ``t``."""
    kube = FakeKube()
    kube.serve(API_VERSION, "ActionRequest", namespaced=True)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        kube.serve("admissionregistration.k8s.io/v1", kind, namespaced=False)
    for one in rights.documents("policies/actions.yaml") if policies else []:
        made = kube.put(one)
        made["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
        kube.put(made)
    body: Object = rights.request("inspect", "web", "shop", who="ann", detail=proof_of(SECRET))
    body["metadata"] = {"name": "t", "namespace": "shop"}
    body["spec"] = {name: value for name, value in (body["spec"] | spec).items() if name != "who" or value}
    kube.put(body)
    return kube


async def holder(kube: FakeKube, ticket: str = f"t/{SECRET}", *, key: PackageKey = WEB, after: float = 1.0) -> str:
    now = MADE + timedelta(seconds=after)
    return await Tickets(kube).holder(ticket, key, hypothetical=False, now=now)


async def refused(kube: FakeKube, ticket: str = f"t/{SECRET}", *, key: PackageKey = WEB, after: float = 1.0) -> str:
    with pytest.raises(PermanentError) as raised:
        await holder(kube, ticket, key=key, after=after)
    assert raised.value.reason is Reason.UNAUTHORIZED
    return raised.value.message


async def test_a_ticket_says_who_created_it_and_can_be_used_again() -> None:
    kube = cluster()
    assert [await holder(kube), await holder(kube)] == ["ann", "ann"]


@pytest.mark.parametrize("after", [-SKEW.total_seconds() - 1, VALID.total_seconds() + 1, 1e6])
async def test_a_ticket_is_good_for_a_minute(after: float) -> None:
    assert "expired" in await refused(cluster(), after=after)


async def test_without_the_policy_nobody_has_checked_it() -> None:
    assert "windlass-actions" in await refused(cluster(policies=False))


async def test_a_ticket_without_a_name_is_nobodys() -> None:
    assert "who created it" in await refused(cluster(who=""))


async def test_a_ticket_is_for_one_package() -> None:
    other = PackageKey(installation="it", namespace="shop", name="other")
    assert "something else" in await refused(cluster(), key=other)
    # Of the same name in another namespace, or a Module: their requests are elsewhere.
    for key in (
        PackageKey(installation="it", namespace="elsewhere", name="web"),
        PackageKey(installation="it", kind=Kind.MODULE, name="web"),
    ):
        assert "no such ticket" in await refused(cluster(), key=key)


@pytest.mark.parametrize("detail", ["", CHANGE, proof_of("other"), SECRET])
async def test_who_does_not_know_the_secret_has_no_ticket(detail: str) -> None:
    assert "no such ticket" in await refused(cluster(detail=detail))
