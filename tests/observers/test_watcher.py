"""The watcher: what an event makes it look at, and what one package's object can do to another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fake_kube import FakeKube
from support.targets import FakeTargets
from support.waiting import eventually
from windlass.activities.inputs import inputs_of
from windlass.activities.references import References
from windlass.contracts.lifecycle import Quarantined
from windlass.contracts.objects import PackageObject, SeenStatus, parse_package
from windlass.domain.ids import API_VERSION, INSTALLATION_LABEL, Kind, PackageKey, package_workflow_id
from windlass.domain.target import APPLICATION_ACCOUNT, Account
from windlass.observers.border import Border
from windlass.observers.metrics import Metrics
from windlass.observers.quarantine import Quarantine
from windlass.observers.watcher import packages as watchers
from windlass.observers.watcher.packages import Watcher
from windlass.observers.watcher.picture import CONTENT_BYTES, Picture, slim
from windlass.ports.kube import Object, ObjectRef

KEY = b"k" * 32
ACCOUNT = Account(namespace="prod", name=APPLICATION_ACCOUNT)


def key(name: str) -> PackageKey:
    return PackageKey(installation="windlass", kind=Kind.APPLICATION, namespace="prod", name=name)


def application(name: str, repository: str = "repo", *config_maps: str) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {"name": name, "namespace": "prod", "uid": name, "generation": 1},
        "spec": {
            "package": {"repository": repository, "name": "web", "version": "1.0.0"},
            "valuesFrom": [{"kind": "ConfigMap", "name": one, "key": "v"} for one in config_maps],
        },
    }


def package(name: str, repository: str = "repo", *config_maps: str) -> PackageObject:
    return parse_package(Kind.APPLICATION, application(name, repository, *config_maps))


def config_map(name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace="prod", name=name)


@dataclass
class Lifecycles:
    """Lifecycles that run once they have been signalled."""

    signalled: list[str] = field(default_factory=list[str])
    ids: set[str] = field(default_factory=set[str])
    listings: int = 0

    async def desired_changed(self, key: PackageKey, seen: SeenStatus) -> None:
        del seen
        self.signalled.append(key.name)
        self.ids.add(package_workflow_id(key))

    async def notify(self, key: PackageKey) -> bool:
        self.ids.discard(package_workflow_id(key))
        return True

    async def running(self) -> set[str]:
        self.listings += 1
        return set(self.ids)

    async def count(self) -> int:
        return len(self.ids)

    async def quarantined(self, key: PackageKey, message: Quarantined) -> bool:
        del key, message
        return True


@dataclass
class Laid:
    kube: FakeKube
    lifecycles: Lifecycles
    watcher: Watcher


@pytest.fixture
async def laid(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Laid]:
    monkeypatch.setattr(watchers, "PATROL", 0.01)
    kube, lifecycles = FakeKube(), Lifecycles()
    kube.serve(API_VERSION, "Module", namespaced=False)
    kube.serve(API_VERSION, "PackageRepository", namespaced=False)
    border = Border(Quarantine(lifecycles, "watcher"), lambda _: None)
    references = References(FakeTargets(kube))
    parts: dict[str, Any] = {"kube": kube, "references": references, "lifecycles": lifecycles}
    watcher = Watcher(
        **parts,
        installation="windlass",
        digest_key=KEY,
        resync=lambda: 600.0,
        metrics=Metrics("windlass"),
        border=border,
    )
    task = border.spawn_shared("test", watcher.run)
    yield Laid(kube, lifecycles, watcher)
    task.cancel()
    with suppress(BaseException):
        await task


async def test_the_users_of_a_config_map_are_signalled_when_it_changes(laid: Laid) -> None:
    laid.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "prod"}, "data": {}})
    laid.kube.put(application("uses", "repo", "a"))
    laid.kube.put(application("other"))
    await eventually(lambda: sorted(laid.lifecycles.signalled) == ["other", "uses"])
    changed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "prod"}}
    laid.kube.put({**changed, "data": {"v": "x: 1"}})
    await eventually(lambda: laid.lifecycles.signalled.count("uses") == 2)
    assert laid.lifecycles.signalled.count("other") == 1


async def test_a_namespace_whose_labels_change_is_noticed_where_a_repository_selects_by_them(laid: Laid) -> None:
    def namespace(**labels: str) -> Object:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": labels}}

    selector = {"matchLabels": {"team": "a"}}
    spec = {"kind": "file", "file": {"path": "/shelf"}, "allowedNamespaces": {"selector": selector}}
    laid.kube.put({"apiVersion": API_VERSION, "kind": "PackageRepository", "metadata": {"name": "shelf"}, "spec": spec})
    laid.kube.put(namespace(team="a"))
    laid.kube.put(application("uses", "shelf"))
    laid.kube.put(application("other"))
    await eventually(lambda: sorted(laid.lifecycles.signalled) == ["other", "uses"])
    laid.kube.put(namespace(team="a", more="x"))
    laid.kube.put(namespace(team="b"))
    await eventually(lambda: laid.lifecycles.signalled.count("uses") == 2)
    laid.kube.put(namespace(team="a"))
    await eventually(lambda: laid.lifecycles.signalled.count("uses") == 3)
    assert laid.lifecycles.signalled.count("other") == 1


async def test_an_object_that_goes_to_another_installation_is_followed_no_more(laid: Laid) -> None:
    laid.kube.put(application("leaves"))
    laid.kube.put(application("stays"))
    await eventually(lambda: sorted(laid.lifecycles.signalled) == ["leaves", "stays"])
    elsewhere = application("leaves")
    elsewhere["metadata"] |= {"labels": {INSTALLATION_LABEL: "other"}, "generation": 2}
    laid.kube.put(elsewhere)
    await eventually(lambda: [kind for kind, _, _ in laid.watcher.packages()] == ["Application"])
    assert laid.lifecycles.signalled.count("leaves") == 1


async def test_an_object_of_a_repository_that_cannot_be_read_stops_nobody_else(laid: Laid) -> None:
    odd = {"apiVersion": API_VERSION, "kind": "PackageRepository", "metadata": {"name": "odd"}, "spec": {"kind": 7}}
    laid.kube.put(odd)
    laid.kube.put(application("uses-it", "odd"))
    laid.kube.put(application("fine"))
    await eventually(lambda: "fine" in laid.lifecycles.signalled)
    laid.kube.put(application("later"))
    await eventually(lambda: "later" in laid.lifecycles.signalled)


async def test_lifecycles_are_listed_only_while_their_number_is_wrong(laid: Laid) -> None:
    for name in ("one", "two"):
        laid.kube.put(application(name))
    await eventually(lambda: len(laid.lifecycles.ids) == 2)
    laid.lifecycles.ids.discard(package_workflow_id(key("one")))
    await eventually(lambda: laid.lifecycles.signalled.count("one") > 1 and len(laid.lifecycles.ids) == 2)
    before = laid.lifecycles.listings
    laid.kube.put(application("three"))
    await eventually(lambda: "three" in laid.lifecycles.signalled)
    assert laid.lifecycles.listings <= before + 2  # at most while the new one was on its way


names = st.sampled_from(["a", "b", "c"])
changes = st.lists(
    st.tuples(names, st.none() | st.tuples(names, st.lists(names, max_size=3, unique=True))), max_size=25
)


@given(changes=changes)
def test_indexes_are_what_a_look_at_every_package_finds(
    changes: list[tuple[str, tuple[str, list[str]] | None]],
) -> None:
    picture, model = Picture(), dict[PackageKey, PackageObject]()
    for name, now in changes:
        if now is None:
            assert picture.pop(key(name)) == model.pop(key(name), None)
        else:
            model[key(name)] = package(name, now[0], *now[1])
            picture.put(key(name), model[key(name)])
        for one in "abc":
            users = {k for k, p in model.items() if one in [entry.name for entry in p.spec.values_from]}
            assert set(picture.users_of(config_map(one))) == users
            assert set(picture.packages_of("prod")) == set(model)
            owned = {k for k, p in model.items() if p.spec.package.repository == one}
            assert set(picture.users_of_repository(one)) == owned
        assert set(picture.not_among(set())) == set(model) == set(picture.packages)
        known = {package_workflow_id(k) for k in model}
        assert picture.unknown({*known, "x"}) == {"x"}
        assert set(picture.contents("ConfigMap", "prod")) == {
            config_map(entry.name) for p in model.values() for entry in p.spec.values_from
        }


async def test_what_is_kept_of_an_object_is_enough_to_know_whether_it_has_changed() -> None:
    obj = application("a", "repo", "one")
    obj["metadata"] |= {
        "labels": {"windlass.dev/installation": "other"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "blue"},
        "finalizers": ["windlass.dev/cleanup"],
        "managedFields": [{"manager": "kubectl"}],
    }
    obj["spec"] |= {"settings": {"big": "x" * 1000}, "suspend": True}
    conditions = [
        {"type": kind, "status": "True", "reason": "Ok", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Ready", "Installed")
    ]
    seen = {"uid": "a", "generation": 1, "digest": "d"}
    obj["status"] = {"phase": "Running", "conditions": conditions, "seen": seen, "version": "1.0.0"}

    async def look_up(ref: ObjectRef) -> Object | None:
        return {"data": {"v": "x: 1"}} if ref.kind == "ConfigMap" else None

    full, kept = (parse_package(Kind.APPLICATION, one) for one in (obj, slim(obj)))
    assert (await inputs_of(kept, repositories=look_up, referenced=look_up)).seen(KEY) == (
        await inputs_of(full, repositories=look_up, referenced=look_up)
    ).seen(KEY)
    assert kept.installation == full.installation
    assert kept.metadata.finalizers == full.metadata.finalizers
    assert kept.status is not None
    assert full.status is not None
    assert (kept.status.phase, kept.status.seen) == (full.status.phase, full.status.seen)
    assert [one.type for one in kept.status.conditions or ()] == ["Ready"]
    assert len(str(slim(obj))) < len(str(obj)) / 2


odd = st.none() | st.integers() | st.dictionaries(st.sampled_from(["conditions", "annotations"]), st.integers())


@given(obj=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), odd))
def test_objects_of_any_shape_can_be_slimmed(obj: Object) -> None:
    assert slim(obj).keys() == obj.keys()


def content(size: int) -> Object:
    return {"data": {"v": "x" * size}}


def test_contents_are_kept_within_a_bound() -> None:
    picture = Picture()
    picks = [f"m-{n}" for n in range(30)]
    picture.put(key("a"), package("a", "repo", *picks))
    for name in picks:
        picture.keep_content(ACCOUNT, config_map(name), content(2 << 20))
        assert picture.size <= CONTENT_BYTES
    assert picture.has_content(ACCOUNT, config_map(picks[-1]))
    assert not picture.has_content(ACCOUNT, config_map(picks[0]))


def test_contents_go_with_their_last_user() -> None:
    picture = Picture()
    for name in ("a", "b"):
        picture.put(key(name), package(name, "repo", "one"))
    picture.keep_content(ACCOUNT, config_map("one"), content(1))
    picture.pop(key("a"))
    assert picture.has_content(ACCOUNT, config_map("one"))
    picture.put(key("b"), package("b", "repo"))
    assert not picture.has_content(ACCOUNT, config_map("one"))
    assert picture.size == 0


def test_what_one_account_has_read_is_not_shown_to_another() -> None:
    picture = Picture()
    picture.put(key("a"), package("a", "repo", "one"))
    picture.keep_content(ACCOUNT, config_map("one"), content(1))
    assert not picture.has_content(Account(namespace="prod", name="other"), config_map("one"))
    picture.drop_content(config_map("one"))
    assert not picture.has_content(ACCOUNT, config_map("one"))
    assert picture.size == 0


def test_what_nobody_refers_to_is_not_kept() -> None:
    picture = Picture()
    picture.keep_content(ACCOUNT, config_map("one"), content(1))
    assert picture.size == 0
