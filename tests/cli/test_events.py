"""`windlass events`: which Events are a package's, and how they read."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any, Final

import pytest
from rich.cells import cell_len
from rich.console import Console

from windlass.cli.inspect.events import concerns, event_document, event_line, events_table
from windlass.observers.inspection.inventory import Node
from windlass.ports.kube import ObjectRef

NOW: Final = datetime(2026, 1, 1, 0, 5, 0, tzinfo=UTC)


def node(kind: str, name: str, namespace: str = "shop") -> Node:
    ref = ObjectRef(api_version="v1", kind=kind, namespace=namespace, name=name)
    return Node(ref=ref, state="current", uid=f"uid-of-{name}")


NODES: Final = [node("Application", "web"), node("Deployment", "shop-web"), node("ClusterRole", "shop-web", "")]


def event(kind: str, name: str, uid: str = "", namespace: str = "shop", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "uid": "e", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "regarding": {"kind": kind, "name": name, "uid": uid, "namespace": namespace},
        "type": "Normal",
        "reason": "Scheduled",
        "note": "went well",
        "eventTime": "2026-01-01T00:04:30.5Z",
        **fields,
    }


@pytest.mark.parametrize(
    ("about", "mine"),
    [
        (event("Application", "web"), True),
        (event("Anything", "renamed", "uid-of-web"), True),
        (event("ReplicaSet", "shop-web-5585d496b5"), True),
        (event("Pod", "shop-web-5585d496b5-8jtwq"), True),
        (event("Pod", "shop-web-api-5585d496b5-8jtwq"), False),
        (event("Pod", "shop-web-admin"), False),
        (event("ConfigMap", "shop-web-5585d496b5"), False),
        (event("Deployment", "shop-web", namespace="other"), False),
        (event("Application", "web2"), False),
        ({"metadata": {"namespace": "shop"}}, False),
    ],
)
def test_whose_an_event_is(about: dict[str, Any], mine: bool) -> None:
    assert concerns(about, NODES) is mine


def drawn(*events: dict[str, Any], width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(events_table(events, NOW))
    lines = out.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return lines


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_the_terminal_and_lose_nothing(width: int) -> None:
    name, note = "shop-web-" + "x" * 50, "the node had no room " * 8
    head, *lines = drawn(event("Pod", name, note=note, type="Warning"), width=width)
    starts = [head.index(one) for one in ("AGE", "TYPE", "REASON", "OBJECT", "NOTE")]
    cells = ["".join(line[a:b].strip() for line in lines) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert cells[:3] == ["29s", "Warning", "Scheduled"]
    assert cells[3] == f"Pod/{name}"
    assert cells[4].replace(" ", "") == note.replace(" ", "")


def test_repeated_events_count_and_tell_their_last_time() -> None:
    series = {"count": 7, "lastObservedTime": "2026-01-01T00:04:58Z"}
    [_, line] = drawn(event("Pod", "a", series=series), width=160)
    assert line.split()[0] == "2s"
    assert line.rstrip().endswith("went well (7 times)")
    old = event("Pod", "a", eventTime=None, deprecatedLastTimestamp="2026-01-01T00:04:50Z", deprecatedCount=3)
    assert event_line(old) == "00:04:50  Normal  Scheduled  Pod/a  went well (3 times)"


def test_a_document_for_programs() -> None:
    assert event_document(event("Pod", "a")) == {
        "time": "2026-01-01T00:04:30.5Z",
        "type": "Normal",
        "reason": "Scheduled",
        "object": {"kind": "Pod", "namespace": "shop", "name": "a"},
        "note": "went well",
        "count": 1,
    }
