"""Informer and finalizers against the real API server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Self, cast

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions import KubeDefinitions
from windlass.adapters.kube.following.feed import KubeFeed
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason
from windlass.framework import (
    Delete,
    Event,
    Failure,
    Finalizers,
    Framework,
    FrameworkMetrics,
    ObjectInformer,
    ResourceSet,
    finalizers_kept,
    reconciliation_canceled,
)
from windlass.operators import kubernetes_framework
from windlass.ports.kube import ListWatch, Object, ObjectList, ObjectRef, WatchEvent, WatchExpiredError

WITHIN = 60.0
LOGGER = structlog.get_logger()


@pytest.fixture
async def kube(stack: Stack) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(stack.kubeconfig, user_agent="tests") as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[str]:
    name = f"framework-{uuid.uuid4().hex[:8]}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


def ref(namespace: str, name: str) -> ObjectRef:
    return ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name=name)


def config_map(namespace: str, name: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, **metadata},
        "data": {"a": "1"},
    }


# Every namespace gets this one by itself.
OURS = "metadata.name!=kube-root-ca.crt"


class Ours:
    """Leaves out what the cluster puts into every namespace, and lets a test end watches with 410."""

    def __init__(self, kube: ListWatch) -> None:
        self.kube = kube
        self.expire = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()
        self.lists = 0

    async def list(self, api_version: str, kind: str, **selection: Any) -> ObjectList:
        await self.hold.wait()
        self.lists += 1
        return await self.kube.list(api_version, kind, **{**selection, "field_selector": OURS})

    async def watch(
        self, api_version: str, kind: str, *, resource_version: str, **selection: Any
    ) -> AsyncGenerator[WatchEvent]:
        selection["field_selector"] = OURS
        watch = self.kube.watch(api_version, kind, resource_version=resource_version, **selection)
        async with aclosing(cast("AsyncGenerator[WatchEvent]", watch)) as stream:
            while True:
                news, expired = asyncio.ensure_future(anext(stream, None)), asyncio.ensure_future(self.expire.wait())
                try:
                    await asyncio.wait({news, expired}, return_when=asyncio.FIRST_COMPLETED)
                    if expired.done():
                        self.expire.clear()
                        raise WatchExpiredError
                    event = news.result()
                finally:
                    for one in (news, expired):
                        one.cancel()
                    await asyncio.wait({news, expired})
                if event is None:
                    return
                yield event


class Following:
    """Collects what an informer tells."""

    def __init__(self, kube: ListWatch, namespace: str, **options: Any) -> None:
        self.source = Ours(kube)
        self.informer = ObjectInformer(
            feed=KubeFeed(self.source, "v1", "ConfigMap", namespace=namespace),
            logger=LOGGER,
            metrics=FrameworkMetrics(CollectorRegistry()),
            **options,
        )
        self.events: list[Event] = []

    async def follow(self) -> None:
        async for event in self.informer.watch():
            self.events.append(event)

    def told(self) -> list[tuple[str, str]]:
        return [
            (type(event).__name__, "" if isinstance(event, Failure) else event.object["metadata"]["name"])
            for event in self.events
        ]

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


async def test_first_fill_changes_and_deletions(kube: KubeClient, namespace: str) -> None:
    await kube.create(config_map(namespace, "before"))
    async with Following(kube, namespace) as following:
        await eventually(lambda: following.told() == [("Update", "before")], WITHIN)
        await kube.create(config_map(namespace, "new"))
        await kube.patch(ref(namespace, "new"), {"data": {"a": "2"}}, kind="merge")
        await kube.delete(ref(namespace, "before"))
        changes = [("Update", "new"), ("Update", "new"), ("Delete", "before")]
        await eventually(lambda: following.told()[1:] == changes, WITHIN)
        event = following.events[-1]
        assert isinstance(event, Delete)
        assert event.object["data"] == {"a": "1"}


async def test_a_deletion_with_a_finalizer_comes_again_at_each_resync(kube: KubeClient, namespace: str) -> None:
    await kube.create(config_map(namespace, "held", finalizers=["example.dev/held"]))
    async with Following(kube, namespace, resync=0.2, rate_wait=0) as following:
        await eventually(lambda: ("Update", "held") in following.told(), WITHIN)
        await kube.delete(ref(namespace, "held"))
        await eventually(lambda: following.told().count(("Delete", "held")) >= 3, WITHIN)
        await kube.patch(ref(namespace, "held"), {"metadata": {"finalizers": None}}, kind="merge")


async def test_after_410_everything_missed_is_made_up_for(kube: KubeClient, namespace: str) -> None:
    for name in ("deleted", "anew", "changed", "same"):
        await kube.create(config_map(namespace, name))
    async with Following(kube, namespace) as following:
        await eventually(lambda: len(following.events) == 4, WITHIN)
        following.source.hold.clear()
        following.source.expire.set()
        await eventually(lambda: not following.source.expire.is_set(), WITHIN)
        await kube.delete(ref(namespace, "deleted"))
        await kube.delete(ref(namespace, "anew"))
        await kube.create(config_map(namespace, "anew"))
        await kube.patch(ref(namespace, "changed"), {"data": {"a": "2"}}, kind="merge")
        following.source.hold.set()
        expected = [("Delete", "anew"), ("Delete", "deleted"), ("Update", "anew"), ("Update", "changed")]
        await eventually(lambda: sorted(following.told()[4:]) == expected, WITHIN)
        assert following.source.lists == 2
        told = following.told()
        assert told.index(("Delete", "anew")) < len(told) - 1 - told[::-1].index(("Update", "anew"))


async def test_missing_rights_are_a_failure(kube: KubeClient, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "nobody"}}
    await kube.create(account)
    nobody = ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name="nobody")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await kube.create_subresource(nobody, "token", request))["status"]["token"]
    access = kube.access.__class__(server=kube.access.server, ca_pem=kube.access.ca_pem, token=token)
    async with KubeClient.from_kubeconfig(access) as powerless, Following(powerless, namespace) as following:
        failure = await eventually(lambda: following.events[0], WITHIN)
        assert isinstance(failure, Failure)
        assert isinstance(failure.error, PermanentError)
        assert failure.error.reason is Reason.FORBIDDEN


class TestFinalizers:
    async def held(self, kube: KubeClient, namespace: str, name: str) -> list[str]:
        found = await kube.get(ref(namespace, name))
        return [] if found is None else found["metadata"].get("finalizers", [])

    async def test_added_to_none_and_beside_others_and_taken_away_again(self, kube: KubeClient, namespace: str) -> None:
        finalizers = Finalizers(kube, name="widgets")
        mine = "operatorkit.giantswarm.io/widgets"
        for name, others in (("none", []), ("some", ["example.dev/other"])):
            made = await kube.create(config_map(namespace, name, finalizers=others))
            assert not await finalizers.hold(made)
            assert await self.held(kube, namespace, name) == [*others, mine]
            now = await kube.get(ref(namespace, name))
            assert await finalizers.hold(now)
            assert await finalizers.release(now)
            assert await self.held(kube, namespace, name) == others
            assert not await finalizers.release(await kube.get(ref(namespace, name)))
            await kube.patch(ref(namespace, name), {"metadata": {"finalizers": None}}, kind="merge")

    async def test_an_old_picture_loses_no_other_writers_finalizer(self, kube: KubeClient, namespace: str) -> None:
        finalizers = Finalizers(kube, name="widgets")
        old = await kube.create(config_map(namespace, "raced"))
        await kube.patch(ref(namespace, "raced"), {"metadata": {"finalizers": ["example.dev/new"]}}, kind="merge")
        assert not await finalizers.hold(old)
        assert await self.held(kube, namespace, "raced") == ["example.dev/new", finalizers.finalizer]
        stale = await kube.get(ref(namespace, "raced"))
        await kube.patch(
            ref(namespace, "raced"), {"metadata": {"finalizers": [finalizers.finalizer, "example.dev/b"]}}, kind="merge"
        )
        assert await finalizers.release(stale)
        assert await self.held(kube, namespace, "raced") == ["example.dev/b"]
        await kube.patch(ref(namespace, "raced"), {"metadata": {"finalizers": None}}, kind="merge")

    async def test_not_added_under_deletion_nor_to_another_of_the_name(self, kube: KubeClient, namespace: str) -> None:
        finalizers = Finalizers(kube, name="widgets")
        first = await kube.create(config_map(namespace, "a", finalizers=["example.dev/x"]))
        await kube.delete(ref(namespace, "a"))
        assert not await finalizers.hold(first)  # it was not under deletion when it was seen
        assert await self.held(kube, namespace, "a") == ["example.dev/x"]
        await kube.patch(ref(namespace, "a"), {"metadata": {"finalizers": None}}, kind="merge")
        await kube.create(config_map(namespace, "a"))
        assert not await finalizers.hold(first)
        assert not await finalizers.release(first)
        assert await self.held(kube, namespace, "a") == []

    async def test_an_object_that_is_gone_is_fine(self, kube: KubeClient, namespace: str) -> None:
        finalizers = Finalizers(kube, name="widgets")
        made = await kube.create(config_map(namespace, "gone", finalizers=[finalizers.finalizer]))
        await kube.patch(ref(namespace, "gone"), {"metadata": {"finalizers": None}}, kind="merge")
        await kube.delete(ref(namespace, "gone"))
        assert not await finalizers.release(made)
        assert not await finalizers.hold(await kube.create(config_map(namespace, "gone")))


class Widget:
    """A resource that does as it is told, and tells."""

    name = "widget"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.on_delete: Any = lambda: None

    async def ensure_created(self, obj: Any) -> None:
        self.calls.append(f"created {obj['metadata']['name']}")

    async def ensure_deleted(self, obj: Any) -> None:
        self.calls.append(f"deleted {obj['metadata']['name']}")
        self.on_delete()


class Running:
    """A framework over the config maps of one namespace; it handles those whose name begins with ``mine``."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self.widget = Widget()
        self.handles = lambda obj: obj["metadata"]["name"].startswith("mine")
        # What `handles` is may change later.
        one = ResourceSet(handles=self._handles, logger=LOGGER, resources=[self.widget])
        self.framework: Framework = kubernetes_framework(
            kube,
            name="widgets",
            api_version="v1",
            kind="ConfigMap",
            namespace=namespace,
            resource_sets=[one],
            resync=0.3,
            rate_wait=0,
            metrics=FrameworkMetrics(CollectorRegistry()),
        )

    def _handles(self, obj: Any) -> bool:
        return self.handles(obj)

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.framework.boot())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


class TestFrameworkWithFinalizers:
    async def gone(self, kube: KubeClient, namespace: str, name: str) -> bool:
        return await kube.get(ref(namespace, name)) is None

    async def test_a_whole_life(self, kube: KubeClient, namespace: str) -> None:
        async with Running(kube, namespace) as running:
            await kube.create(config_map(namespace, "mine"))
            await kube.create(config_map(namespace, "theirs"))
            await eventually(lambda: "created mine" in running.widget.calls, WITHIN)
            theirs = await kube.get(ref(namespace, "theirs"))
            assert theirs is not None
            assert "finalizers" not in theirs["metadata"]
            await kube.delete(ref(namespace, "mine"))
            await eventually(lambda: self.gone(kube, namespace, "mine"), WITHIN)
            # Its going is an event too, and no second deletion.
            assert running.widget.calls.count("deleted mine") == 1

    @pytest.mark.parametrize("how", ["an error", "finalizers kept"])
    async def test_a_deletion_comes_again_until_it_succeeds(self, kube: KubeClient, namespace: str, how: str) -> None:
        def fails() -> None:
            if how == "an error":
                raise RuntimeError("not yet")
            finalizers_kept.set()

        async with Running(kube, namespace) as running:
            running.widget.on_delete = fails
            await kube.create(config_map(namespace, "mine"))
            await eventually(lambda: "created mine" in running.widget.calls, WITHIN)
            await kube.delete(ref(namespace, "mine"))
            await eventually(lambda: running.widget.calls.count("deleted mine") >= 2, WITHIN)
            assert not await self.gone(kube, namespace, "mine")
            running.widget.on_delete = lambda: None
            await eventually(lambda: self.gone(kube, namespace, "mine"), WITHIN)

    async def test_a_canceled_deletion_counts_as_done(self, kube: KubeClient, namespace: str) -> None:
        async with Running(kube, namespace) as running:
            running.widget.on_delete = reconciliation_canceled.set
            await kube.create(config_map(namespace, "mine"))
            await eventually(lambda: "created mine" in running.widget.calls, WITHIN)
            await kube.delete(ref(namespace, "mine"))
            await eventually(lambda: self.gone(kube, namespace, "mine"), WITHIN)

    async def test_a_deletion_that_nobody_handles_any_more_is_told_and_held(
        self, kube: KubeClient, namespace: str
    ) -> None:
        with capture_logs() as logs:
            async with Running(kube, namespace) as running:
                await kube.create(config_map(namespace, "mine"))
                await eventually(lambda: "created mine" in running.widget.calls, WITHIN)
                running.handles = lambda _: False
                await kube.delete(ref(namespace, "mine"))
                await eventually(lambda: [one for one in logs if "finalizer stays" in one["event"]], WITHIN)
                assert not await self.gone(kube, namespace, "mine")
                running.handles = lambda _: True
                await eventually(lambda: self.gone(kube, namespace, "mine"), WITHIN)


class TestDefinitions:
    def definition(self, kind: str, group: str) -> Object:
        plural = f"{kind.lower()}s"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }

    async def test_served_when_it_returns_and_again_the_same(self, kube: KubeClient, namespace: str) -> None:
        group = f"{namespace}.example.dev"
        definitions = KubeDefinitions(kube, field_manager="tests")
        try:
            for _ in range(2):
                await definitions.ensure_created(self.definition("Widget", group))
                assert (await kube.list(f"{group}/v1", "Widget")).items == []
            clash = self.definition("Widget", group)
            clash["metadata"]["name"] = f"gadgets.{group}"
            clash["spec"]["names"] = {"kind": "Widget", "plural": "gadgets", "singular": "gadget"}
            with pytest.raises(PermanentError, match="gadgets"):
                await definitions.ensure_created(clash)
        finally:
            for plural in ("widgets", "gadgets"):
                name = f"{plural}.{group}"
                crd = ObjectRef(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", name=name)
                await kube.delete(crd)


async def test_updates_of_a_framework_without_finalizers(kube: KubeClient, namespace: str) -> None:
    widget = Widget()
    one = ResourceSet(handles=lambda obj: obj["metadata"]["name"] == "mine", logger=LOGGER, resources=[widget])
    made = kubernetes_framework(
        kube,
        name="widgets",
        api_version="v1",
        kind="ConfigMap",
        namespace=namespace,
        resource_sets=[one],
        keep_finalizers=False,
        metrics=FrameworkMetrics(CollectorRegistry()),
    )
    task = asyncio.create_task(made.boot())
    await kube.create(config_map(namespace, "mine"))
    await eventually(lambda: widget.calls == ["created mine"], WITHIN)
    await kube.delete(ref(namespace, "mine"))
    await eventually(lambda: widget.calls == ["created mine", "deleted mine"], WITHIN)
    task.cancel()
    await asyncio.wait({task})
