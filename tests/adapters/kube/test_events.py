from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.events import CONTROLLER, NOTE_MAX, KubeEventLog
from windlass.domain.errors import Reason, TransientError
from windlass.ports.events import EventNote
from windlass.ports.kube import Kube, ObjectRef


def note(namespace: str, **fields: Any) -> EventNote:
    base = EventNote(
        regarding=ObjectRef(
            api_version="windlass.dev/v1alpha1", kind="Application", namespace=namespace, name="billing"
        ),
        uid="6f1c",
        type="Normal",
        reason="Installed",
        note="version 1.2.3 is installed",
        action="Install",
        at=1_790_000_000.25,
    )
    return replace(base, **fields)


async def recorded(kube: KubeClient, namespace: str) -> list[dict[str, Any]]:
    return (await kube.list("events.k8s.io/v1", "Event", namespace=namespace)).items


async def test_an_event_recorded_twice_is_one(kube: KubeClient, namespace: str) -> None:
    first, later = note(namespace), note(namespace, at=1_790_000_001.0)
    await KubeEventLog(kube).record([first, first])
    await KubeEventLog(kube).record([first, later])
    events = await recorded(kube, namespace)
    assert len(events) == 2
    found = min(events, key=lambda event: event["eventTime"])
    assert found["eventTime"] == "2026-09-21T14:13:20.250000Z"
    assert found["reportingController"] == CONTROLLER
    assert (found["type"], found["reason"], found["action"]) == ("Normal", "Installed", "Install")
    assert found["regarding"] == {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "Application",
        "namespace": namespace,
        "name": "billing",
        "uid": "6f1c",
    }


async def test_a_long_note_is_cut_at_what_the_server_takes(kube: KubeClient, namespace: str) -> None:
    await KubeEventLog(kube).record([note(namespace, note="ä" * 5000)])
    (event,) = await recorded(kube, namespace)
    assert 900 < len(event["note"].encode()) <= NOTE_MAX
    assert event["note"].startswith("ää")


@pytest.mark.parametrize("name", ["shop/eu", "A_b=c", "a.-b", "=", "a..b", "k" * 1000])
async def test_what_is_no_object_may_have_any_name(kube: KubeClient, namespace: str, name: str) -> None:
    ref = ObjectRef(api_version="nats.io/v1", kind="Route", namespace=namespace, name=name)
    await KubeEventLog(kube, controller="routes").record([note(namespace, regarding=ref, uid="")])
    (event,) = await recorded(kube, namespace)
    assert event["regarding"]["name"] == name
    assert event["reportingController"] == "routes"


async def test_a_long_name_still_makes_a_valid_event(kube: KubeClient, namespace: str) -> None:
    where = ObjectRef(api_version="v1", kind="ConfigMap", namespace=namespace, name="x" * 253)
    await KubeEventLog(kube).record([note(namespace, regarding=where)])
    assert len(await recorded(kube, namespace)) == 1


async def test_events_of_a_namespace_that_is_gone_are_dropped(kube: KubeClient) -> None:
    await KubeEventLog(kube).record([note("absent-for-ever")])


async def test_other_errors_are_told() -> None:
    class Away:
        """The part of the port that is used, away."""

        async def create(self, _obj: dict[str, Any]) -> dict[str, Any]:
            raise TransientError(Reason.API_UNAVAILABLE, "away")

    with pytest.raises(TransientError, match="away"):
        await KubeEventLog(cast("Kube", Away())).record([note("shop")])
