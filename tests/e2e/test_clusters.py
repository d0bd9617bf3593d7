"""One installation, three clusters: packages on each, and clusters that stop, forget and refuse."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import structlog

from support.clusters import Elsewhere, elsewhere
from support.installation import Installation, condition, write_greeter
from support.running import packages, running, shown
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.domain.ids import ABANDON_ANNOTATION
from windlass.ports.kube import Object

VERSIONS = ("1.0.0", "2.0.0", "3.0.0")


@dataclass(frozen=True)
class Fleet:
    """An installation with two clusters beside its own; the second has an etcd of its own."""

    home: Installation
    one: Elsewhere
    two: Elsewhere

    async def greet(self, name: str, version: str, there: Elsewhere | None = None, secret: str = "") -> None:
        target = {} if there is None else {"target": there.target(secret)}
        await self.home.application(name, "greeter", version, **target)

    async def installed(self, name: str, there: Elsewhere | None = None, secret: str = "") -> None:
        await self.greet(name, "1.0.0", there, secret)
        await self.home.ready(name, "1.0.0")

    async def failed(self, name: str, reason: str) -> Object:
        """Wait until the package fails for that reason, and its condition says so; return the failure."""
        obj = await self.home.status(name, lambda status: (status.get("failure") or {}).get("reason") == reason)
        ready = condition(obj, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", reason)
        failure: Object = obj["status"]["failure"]
        return failure

    @property
    def process(self) -> int:
        assert self.home.process is not None
        assert self.home.process.poll() is None
        return self.home.process.pid


@pytest.fixture(scope="module")
async def fleet(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as opened:
        folder = tmp_path_factory.mktemp("clusters")
        # The clusters of the tests are on this machine.
        home = await opened.enter_async_context(running(stack, folder, WINDLASS_KUBECONFIGS="local"))
        write_greeter(packages(home), *VERSIONS)
        one = await opened.enter_async_context(elsewhere(home, 1))
        two = await opened.enter_async_context(elsewhere(home, 2))
        yield Fleet(home, one, two)


async def test_the_same_application_goes_to_another_cluster_by_naming_a_kubeconfig(fleet: Fleet) -> None:
    await fleet.installed("near")
    await fleet.installed("far", fleet.one)
    assert await shown(fleet.home, "near") == {"version": "1.0.0", "greeting": "hello"}
    assert await shown(fleet.home, "far") == {}
    assert await fleet.one.shown("far") == {"version": "1.0.0", "greeting": "hello"}
    assert await fleet.one.get("Secret", "sh.helm.release.v1.far.v1") is not None
    assert await fleet.home.get("Secret", "sh.helm.release.v1.far.v1") is None
    assert await fleet.two.shown("far") == {}

    await fleet.greet("far", "2.0.0", fleet.one)
    await fleet.home.ready("far", "2.0.0")
    assert (await fleet.one.shown("far"))["version"] == "2.0.0"

    await fleet.home.delete("far")
    await fleet.home.gone("far")
    assert await fleet.one.shown("far") == {}
    assert await fleet.one.get("Secret", "sh.helm.release.v1.far.v2") is None
    assert await shown(fleet.home, "near") != {}


async def test_a_cluster_that_stops_holds_up_its_own_packages_only(fleet: Fleet) -> None:
    places = {"at-home": None, "at-two": fleet.two, "at-one": fleet.one}
    for name, there in places.items():
        await fleet.greet(name, "1.0.0", there)
    for name in places:
        await fleet.home.ready(name, "1.0.0")
    others = ("at-home", "at-two")
    before = await _seconds(fleet, others, "2.0.0", places)
    fleet.one.cluster.stop_api()
    try:
        await fleet.greet("at-one", "3.0.0", fleet.one)
        failure = await fleet.failed("at-one", "ClusterUnreachable")
        assert f"cluster {fleet.home.namespace}/cluster-1 is unreachable" in failure["message"]
        during = await _seconds(fleet, others, "3.0.0", places)
    finally:
        fleet.one.cluster.start_api()
    structlog.get_logger().info("upgrades of others", seconds=before, while_one_cluster_is_down=during)
    await fleet.home.ready("at-one", "3.0.0")
    assert (await fleet.one.shown("at-one"))["version"] == "3.0.0"


async def _seconds(fleet: Fleet, names: tuple[str, ...], version: str, places: dict[str, Elsewhere | None]) -> float:
    """Upgrade packages and return how long that took; for the log."""
    began = time.monotonic()
    for name in names:
        await fleet.greet(name, version, places[name])
    for name in names:
        await fleet.home.ready(name, version)
    return round(time.monotonic() - began, 2)


async def test_a_removal_waits_for_a_cluster_that_does_not_answer_until_it_is_abandoned(fleet: Fleet) -> None:
    await fleet.installed("stranded", fleet.one)
    fleet.one.cluster.stop_api()
    try:
        await fleet.home.delete("stranded")
        obj = await fleet.home.status(
            "stranded", lambda status: (status.get("failure") or {}).get("reason") == "ClusterUnreachable"
        )
        assert ABANDON_ANNOTATION in obj["status"]["failure"]["hint"]
        marked = {"metadata": {"annotations": {ABANDON_ANNOTATION: "true"}}}
        await fleet.home.kube.patch(fleet.home.package_ref("stranded"), marked, kind="merge")
        await fleet.home.gone("stranded")
    finally:
        fleet.one.cluster.start_api()

    async def left() -> bool:
        return (await fleet.one.shown("stranded")) == {"version": "1.0.0", "greeting": "hello"}

    await eventually(left, what="what was given up is still there")


async def test_a_revoked_kubeconfig_is_named_and_a_new_one_heals_without_a_restart(fleet: Fleet) -> None:
    process = fleet.process
    first = await fleet.one.account("first")
    await fleet.one.store("revoked", text=first)
    await fleet.installed("cut", fleet.one, "revoked")
    await fleet.one.revoke("first", first)
    await fleet.greet("cut", "2.0.0", fleet.one, "revoked")
    failure = await fleet.failed("cut", "KubeconfigInvalid")
    assert f"cluster {fleet.home.namespace}/revoked does not accept the credentials" in failure["message"]
    assert "Secret" in failure["hint"] or "kubeconfig" in failure["hint"]
    await fleet.one.store("revoked", text=await fleet.one.account("second"))
    await fleet.home.ready("cut", "2.0.0")
    assert (await fleet.one.shown("cut"))["version"] == "2.0.0"
    assert fleet.process == process


async def test_a_kubeconfig_that_loses_its_rights_says_who_may_not_do_what(fleet: Fleet) -> None:
    await fleet.one.store("weak", text=await fleet.one.account("weak", "view"))
    await fleet.greet("weak", "1.0.0", fleet.one, "weak")
    failure = await fleet.failed("weak", "Forbidden")
    assert f"the user of the kubeconfig in Secret weak in {fleet.home.namespace} cannot" in failure["message"]
    await fleet.one.store("weak", text=await fleet.one.account("strong"))
    await fleet.home.ready("weak", "1.0.0")


async def test_a_kubeconfig_secret_that_is_gone_is_named(fleet: Fleet) -> None:
    await fleet.one.store("lent")
    await fleet.installed("lent", fleet.one, "lent")
    await fleet.home.kube.delete(fleet.home.ref("Secret", "lent"))
    await fleet.greet("lent", "2.0.0", fleet.one, "lent")
    failure = await fleet.failed("lent", "IdentityMissing")
    assert f"Secret lent in {fleet.home.namespace} does not exist" in failure["message"]
    await fleet.one.store("lent")
    await fleet.home.ready("lent", "2.0.0")


async def test_packages_are_installed_again_on_a_cluster_that_has_come_back_empty(fleet: Fleet) -> None:
    await fleet.installed("resting", fleet.two)
    await fleet.installed("changing", fleet.two)
    fleet.two.cluster.empty()
    assert await fleet.two.shown("resting") == {}
    await fleet.greet("changing", "2.0.0", fleet.two)
    await fleet.home.ready("changing", "2.0.0")
    assert (await fleet.two.shown("changing"))["version"] == "2.0.0"

    # What rests is looked at now and then, and when a worker starts.
    fleet.home.stop()
    fleet.home.start()

    async def back() -> bool:
        return (await fleet.two.shown("resting")) == {"version": "1.0.0", "greeting": "hello"}

    await eventually(back, 90, what="the package that rested is there again")
    await fleet.home.ready("resting", "1.0.0")
