"""What workers keep in the cluster for the inspect endpoint: one authority, and where each of them is."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from support.fake_kube import FakeKube
from windlass.adapters.inspection import authority, directory
from windlass.adapters.inspection.authority import trusting
from windlass.adapters.inspection.directory import Directory
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.ports.kube import ObjectRef

HOME = "windlass-system"
NOW = datetime.now(UTC)
CA = ObjectRef(api_version="v1", kind="Secret", namespace=HOME, name="it-inspect-ca")
MAP = ObjectRef(api_version="v1", kind="ConfigMap", namespace=HOME, name="it-inspect")
CONFLICT = TransientError(Reason.API_CONFLICT, "somebody was quicker")


async def test_workers_that_start_together_have_one_authority() -> None:
    kube = FakeKube()
    found = await asyncio.gather(*(authority.ensured(kube, HOME, "it", NOW) for _ in range(5)))
    assert len({one.certificate_pem for one in found}) == 1
    assert isinstance(trusting(found[0].certificate_pem), ssl.SSLContext)


async def test_an_authority_that_is_deleted_is_made_anew() -> None:
    kube = FakeKube()
    before = await authority.ensured(kube, HOME, "it", NOW)
    await kube.delete(CA)
    after = await authority.ensured(kube, HOME, "it", NOW)
    assert before.certificate("w1", (), NOW).stale(after, NOW)


@pytest.mark.parametrize("data", [{}, {"tls.crt": "eA==", "tls.key": "eA=="}, {"tls.crt": "%", "tls.key": "%"}])
async def test_a_secret_that_holds_something_else_is_named(data: dict[str, str]) -> None:
    kube = FakeKube()
    kube.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": HOME, "name": "it-inspect-ca"},
            "data": data,
        }
    )
    with pytest.raises(PermanentError, match="it-inspect-ca") as raised:
        await authority.ensured(kube, HOME, "it", NOW)
    assert raised.value.reason is Reason.STATE_REJECTED


def test_what_is_no_certificate_is_not_trusted() -> None:
    for text in ("", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(PermanentError, match="no PEM certificate"):
            trusting(text)


async def test_addresses_come_and_go_with_their_workers() -> None:
    kube = FakeKube()
    assert await directory.read(kube, HOME, "it") is None
    await directory.publish(kube, HOME, "it", "ca", "w1", "10.0.0.1:1", ["w1"])
    await directory.publish(kube, HOME, "it", "ca", "w2", "10.0.0.2:1", ["w1", "w2"])
    both = Directory(authority_pem="ca", addresses={"w1": "10.0.0.1:1", "w2": "10.0.0.2:1"})
    assert await directory.read(kube, HOME, "it") == both
    await directory.publish(kube, HOME, "it", "ca", "w2", "10.0.0.2:2", ["w2"])  # w1 is dead, w2 has moved
    await directory.publish(kube, HOME, "it", "new", "w3", "10.0.0.3:1", ["w2"])  # its own Lease is not listed yet
    left = Directory(authority_pem="new", addresses={"w2": "10.0.0.2:2", "w3": "10.0.0.3:1"})
    assert await directory.read(kube, HOME, "it") == left
    await directory.withdraw(kube, HOME, "it", "w2")
    await directory.withdraw(kube, HOME, "it", "w2")
    assert await directory.read(kube, HOME, "it") == Directory(authority_pem="new", addresses={"w3": "10.0.0.3:1"})


async def test_what_is_published_already_is_not_written_again() -> None:
    kube = FakeKube()
    await directory.publish(kube, HOME, "it", "ca", "w1", "10.0.0.1:1", ["w1"])
    before = kube.peek(MAP)
    await directory.publish(kube, HOME, "it", "ca", "w1", "10.0.0.1:1", ["w1"])
    assert kube.peek(MAP) == before
    assert "replace" not in kube.verbs()


async def test_writes_of_others_in_between_are_no_failure() -> None:
    kube = FakeKube()
    kube.fail_next("create", CONFLICT)
    await directory.publish(kube, HOME, "it", "ca", "w1", "10.0.0.1:1", ["w1"])
    kube.fail_next("replace", CONFLICT, CONFLICT)
    await directory.publish(kube, HOME, "it", "ca", "w2", "10.0.0.2:1", ["w1", "w2"])
    found = await directory.read(kube, HOME, "it")
    assert found is not None
    assert set(found.addresses) == {"w1", "w2"}
    kube.fail_next("replace", *[CONFLICT] * 9)
    with pytest.raises(TransientError):
        await directory.publish(kube, HOME, "it", "ca", "w3", "10.0.0.3:1", ["w1", "w2"])
