"""As whom and where the objects of releases are watched, and what becomes of those that nobody may watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from support.drift_field import Field, body, config_map, laid_out, name_in
from support.targets import at_home
from support.waiting import eventually
from windlass.contracts.lifecycle import ReleaseDrifted
from windlass.domain.drift.watching import Limits
from windlass.domain.target import APPLICATION_ACCOUNT, Account, Kubeconfig, Target
from windlass.observers.drift import watches as drift_watches
from windlass.ports.kube import ObjectRef

READER = "windlass-reader"
OWN = APPLICATION_ACCOUNT
WEB = name_in(1)

type Lay = Callable[[Limits], AbstractAsyncContextManager[Field]]


@pytest.fixture
def lay(monkeypatch: pytest.MonkeyPatch) -> Lay:
    return partial(laid_out, monkeypatch)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused watches are tried again after a moment."""
    monkeypatch.setattr(drift_watches, "pause_after", lambda _failures: 0.05)


def secret(name: str, namespace: str = "prod") -> ObjectRef:
    return ObjectRef(api_version="v1", kind="Secret", namespace=namespace, name=name)


def watched_by(field: Field) -> set[tuple[str, str, str]]:
    """Account, kind and namespace of every watch."""
    return {(one.who.name, one.kind, one.namespace) for one in field.service.watches}


async def test_listed_kinds_are_watched_by_the_reader_and_others_as_the_package(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.package(WEB, "one", secret("key"))
        await field.serve(1)
        await eventually(lambda: watched_by(field) == {(READER, "ConfigMap", ""), (OWN, "Secret", "prod")})
        await field.compared(WEB)
        await field.kube.delete(secret("key"))
        await eventually(lambda: field.told.drifted == [WEB])
        assert field.told.unwatched == {WEB: ""}


async def test_a_kind_that_is_added_is_watched_by_the_reader(lay: Lay) -> None:
    async with lay(Limits(kinds=frozenset({("v1", "Pod")}))) as field:
        field.package(WEB, ObjectRef(api_version="v1", kind="Pod", namespace="prod", name="one"))
        await field.serve(1)
        await eventually(lambda: watched_by(field) == {(READER, "Pod", "")})


async def test_two_packages_of_one_account_share_watches(lay: Lay) -> None:
    async with lay(Limits()) as field:
        other = name_in(1, "other")
        field.package(WEB, secret("one"))
        field.package(other, secret("two"))
        await field.serve(1)
        await field.compared(WEB, other)
        await eventually(lambda: field.accounts.listed == [(OWN, "Secret", "prod")])
        await field.kube.delete(field.ref(WEB))
        await eventually(lambda: field.known() == {other})
        assert watched_by(field) == {(OWN, "Secret", "prod")}


async def test_without_the_reader_the_package_watches_for_itself(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.accounts.forbidden.add((READER, "ConfigMap"))
        field.package(WEB, "one")
        await field.serve(1)
        await eventually(lambda: (OWN, "ConfigMap", "prod") in field.accounts.listed)
        await field.kube.delete(config_map("one"))
        await eventually(lambda: field.told.drifted == [WEB])
        assert field.told.unwatched == {WEB: ""}


@pytest.mark.usefixtures("soon")
async def test_the_reader_takes_over_when_it_may(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.accounts.forbidden.add((READER, "ConfigMap"))
        field.package(WEB, "one")
        await field.serve(1)
        await eventually(lambda: (OWN, "ConfigMap", "prod") in watched_by(field))
        field.accounts.forbidden.clear()
        await eventually(lambda: watched_by(field) == {(READER, "ConfigMap", "")})
        await field.kube.delete(config_map("one"))
        await eventually(lambda: field.told.drifted == [WEB])


async def test_what_nobody_may_watch_is_compared_from_time_to_time_and_that_is_said(lay: Lay) -> None:
    async with lay(Limits(resync=0.2)) as field:
        field.accounts.forbidden = {(READER, "ConfigMap"), (OWN, "ConfigMap")}
        field.package(WEB, "one")
        await field.serve(1)
        await eventually(lambda: "ConfigMap: compared every" in field.told.unwatched.get(WEB, ""))
        assert "service account windlass-application in prod may not watch" in field.told.unwatched[WEB]
        await field.kube.delete(config_map("one"))
        await eventually(lambda: WEB in field.told.drifted)
        tries = [one for one in field.accounts.listed if one[1] == "ConfigMap"]
        assert len(tries) == 2, "a refused watch is not tried again at once"


@pytest.mark.usefixtures("soon")
async def test_no_more_is_said_when_everything_is_watched_again(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.accounts.forbidden = {(OWN, "Secret")}
        field.package(WEB, secret("one"))
        await field.serve(1)
        await eventually(lambda: "Secret" in field.told.unwatched.get(WEB, ""))
        shown = await field.kube.get(field.ref(WEB))
        assert shown is not None
        status = {**shown["status"], "drift": {"total": 0, "unwatched": field.told.unwatched[WEB]}}
        field.kube.put({**shown, "status": status})
        field.accounts.forbidden.clear()
        await eventually(lambda: field.told.unwatched == {WEB: ""})
        assert field.told.drifted == []


async def test_there_are_no_more_watches_than_allowed(lay: Lay) -> None:
    async with lay(Limits(watches=0, resync=0.2)) as field:
        field.package(WEB, "one", secret("two"))
        await field.serve(1)
        await eventually(lambda: "used up its watches" in field.told.unwatched.get(WEB, ""))
        assert watched_by(field) == {(READER, "ConfigMap", "")}
        await field.kube.delete(secret("two"))
        await eventually(lambda: WEB in field.told.drifted)


async def test_an_account_cannot_use_up_the_watches_of_others(lay: Lay) -> None:
    async with lay(Limits(watches=16)) as field:
        greedy = Target(account=Account(namespace="prod", name="greedy"), namespace="prod")
        field.package(name_in(1, "greedy"), *(secret("x", f"ns-{n}") for n in range(20)), target=greedy)
        await field.serve(1)
        await field.compared(name_in(1, "greedy"))
        field.package(WEB, secret("one"))
        await eventually(lambda: (OWN, "Secret", "prod") in watched_by(field))
        assert sum(account == "greedy" for account, _, _ in watched_by(field)) == 2


async def test_packages_on_other_clusters_are_compared_from_time_to_time(lay: Lay) -> None:
    async with lay(Limits(resync=0.2)) as field:
        cluster = Target(account=at_home("prod").account, cluster=Kubeconfig(name="edge"), namespace="prod")
        field.package(WEB, "one", target=cluster)
        await field.serve(1)
        await eventually(lambda: "other clusters are not watched" in field.told.unwatched.get(WEB, ""))
        assert watched_by(field) == set()
        await field.kube.delete(config_map("one"))
        await eventually(lambda: WEB in field.told.drifted)


async def test_a_release_that_names_an_object_of_another_tenant_learns_nothing_of_it(lay: Lay) -> None:
    spy = name_in(1, "spy")
    account = Target(account=Account(namespace="prod", name="spy"), namespace="prod")
    theirs = ObjectRef(api_version="v1", kind="ConfigMap", namespace="theirs", name="one")
    async with lay(Limits()) as field:
        field.accounts.strangers.add(("spy", "theirs"))
        field.package(spy, theirs, "mine", target=account)
        field.package(WEB, theirs)
        await field.serve(1)
        await field.compared(spy, WEB)
        field.kube.put({**body(theirs), "data": {"a": "changed"}})
        await eventually(lambda: field.told.drifted == [WEB])
        await field.kube.delete(theirs)
        await eventually(lambda: len(field.told.drifted) > 1)
        assert set(field.told.drifted) == {WEB}


async def test_a_missing_reader_account_is_no_loop(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.accounts.forbidden |= {(READER, "ConfigMap"), (READER, "Service"), (OWN, "Service")}
        names = [name_in(1, f"p{n}") for n in range(5)]
        for number, name in enumerate(names):
            service = ObjectRef(api_version="v1", kind="Service", namespace="prod", name=f"s{number}")
            field.package(name, f"map-{number}", service)
        await field.serve(1)
        await eventually(lambda: set(field.told.unwatched) == set(names))
        assert sorted(field.accounts.listed) == sorted(
            [
                (READER, "ConfigMap", ""),
                (READER, "Service", ""),
                (OWN, "ConfigMap", "prod"),
                (OWN, "Service", "prod"),
            ]
        )


def test_a_message_holds_what_is_said_at_most() -> None:
    assert ReleaseDrifted(revision=1, objects=(), compare=False, unwatched="x" * 1024)


async def test_no_watch_is_left_when_the_last_shard_leaves(lay: Lay) -> None:
    async with lay(Limits()) as field:
        field.package(WEB, "one", secret("two"))
        await field.serve(1)
        await eventually(lambda: len(field.accounts.listed) == 2)
        tasks = [one for one in asyncio.all_tasks() if one.get_name() == "drift-watch"]
        assert len(tasks) == 2
        await field.give_up(1)
        assert all(task.done() for task in tasks)
