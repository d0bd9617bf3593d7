"""`windlass tree`: every name whole, every line within the terminal, columns in line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from windlass.cli.inspect.tree import TreeView, changes, document, label, state_text
from windlass.observers.inspection.inventory import ABSENT, RELEASE, Inventory, Node, reachable
from windlass.ports.kube import ObjectRef

NOW: Final = datetime(2026, 1, 1, 0, 5, 0, tzinfo=UTC)
LONG: Final = "a-name-as-long-as-a-release-may-be-with-53-characters"
WHY: Final = "2 of 3 replicas are available and the third one waits for a node that has room for it"


def node(kind: str, name: str, *children: Node, state: str = "current", message: str = "", where: str = "shop") -> Node:
    ref = ObjectRef(api_version="v1", kind=kind, namespace=where, name=name)
    created = None if kind == RELEASE else NOW - timedelta(seconds=75)
    return Node(ref=ref, state=state, message=message, uid=name, created=created, children=list(children))


def web(state: str = "current", message: str = "", name: str = "web") -> Inventory:
    pods = [node("Pod", f"{name}-5585d496b5-{end}", state=state, message=message) for end in ("8jtwq", "hdpk9")]
    deployment = node("Deployment", name, node("ReplicaSet", f"{name}-5585d496b5", *pods), state=state, message=message)
    release = node(RELEASE, f"shop.{name}", node("ConfigMap", name), deployment, state="deployed", message="revision 3")
    return Inventory(root=node("Application", name, release), kinds=frozenset())


def drawn(inventory: Inventory, width: int = 160) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(TreeView(inventory, NOW))
    lines = out.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines), "\n".join(lines)
    return lines


def test_each_object_stands_below_what_it_belongs_to() -> None:
    assert drawn(web()) == [
        "OBJECT                                AGE  STATE",
        "Application/web                       75s  current",
        "└─ Release/shop.web                        deployed, revision 3",
        "   ├─ ConfigMap/web                   75s  current",
        "   └─ Deployment/web                  75s  current",
        "      └─ ReplicaSet/web-5585d496b5    75s  current",
        "         ├─ Pod/web-5585d496b5-8jtwq  75s  current",
        "         └─ Pod/web-5585d496b5-hdpk9  75s  current",
    ]


def columns(lines: list[str]) -> tuple[int, int]:
    return lines[0].index("AGE"), lines[0].index("STATE")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("name", ["web", LONG])
def test_what_is_too_long_is_folded_within_its_column(width: int, name: str) -> None:
    inventory = web("in progress", WHY, name)
    lines = drawn(inventory, width)
    age, state = columns(lines)
    names = "".join(line[:age].strip(" │├└─") for line in lines[1:])
    states = " ".join(" ".join(line[state:] for line in lines[1:]).split())
    for one in inventory.root.walk():
        assert label(one, "shop") in names
        assert state_text(one).split()[-1] in states
    assert states.count("that has room") == 3
    for line in lines[1:]:
        assert line[age - 2 : age].strip() == ""
        assert line[state - 2 : state].strip() == ""


def test_guides_go_through_where_a_state_is_folded() -> None:
    lines = drawn(web("failed", WHY), 80)
    pods = [at for at, line in enumerate(lines) if "Pod/" in line]
    between = lines[pods[0] + 1 : pods[1]]
    assert between
    assert all(line.startswith("         │") for line in between)


names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=70)
trees = st.recursive(
    st.builds(lambda name, text: node("Kind", name, message=text, state="failed"), names, names),
    lambda inner: st.builds(lambda name, below: node("Kind", name, *below), names, st.lists(inner, max_size=3)),
    max_leaves=8,
)


@settings(deadline=None)
@given(trees, st.integers(50, 170))
def test_no_line_is_longer_than_the_terminal_whatever_the_names(root: Node, width: int) -> None:
    def depth(one: Node) -> int:
        return 1 + max((depth(child) for child in one.children), default=0)

    def kept(one: Node) -> Iterator[Node]:
        yield one
        for child in one.children:
            yield from kept(child)

    lines = drawn(Inventory(root=root, kinds=frozenset()), width + 3 * depth(root))
    assert len(lines) > len(list(kept(root)))


def test_another_namespace_is_named() -> None:
    assert label(node("Secret", "key", where="vault"), "shop") == "Secret/key (vault)"
    assert label(node("ClusterRole", "key", where=""), "shop") == "ClusterRole/key"


def test_what_could_not_be_listed_is_said() -> None:
    inventory = Inventory(root=node("Application", "web"), kinds=frozenset(), unread=("Pod in shop: forbidden",))
    assert drawn(inventory)[-1] == "not listed: Pod in shop: forbidden"


def test_a_document_for_programs() -> None:
    told = document(web("in progress", "waits").root)
    deployment = told["children"][0]["children"][1]
    assert deployment["kind"] == "Deployment"
    assert (deployment["state"], deployment["message"]) == ("in progress", "waits")
    assert deployment["created"] == "2026-01-01T00:03:45Z"
    assert deployment["children"][0]["children"][1]["name"] == "web-5585d496b5-hdpk9"


def test_lines_of_a_log_tell_what_is_new_changed_and_gone() -> None:
    before, after = web("in progress", "waits"), web()
    assert len(changes(None, after)) == 7
    assert changes(before, after) == [
        "Deployment/web  current",
        "Pod/web-5585d496b5-8jtwq  current",
        "Pod/web-5585d496b5-hdpk9  current",
    ]
    after.root.children[0].children.pop(0)
    assert changes(web(), after) == ["ConfigMap/web  gone"]


def test_kinds_that_may_be_owned() -> None:
    assert reachable([("apps/v1", "Deployment")]) == {("apps/v1", "ReplicaSet"), ("v1", "Pod")}
    assert reachable([("v1", "ConfigMap"), ("v1", "Secret")]) == set()
    assert ("v1", "Pod") in reachable([("batch/v1", "CronJob")])
    assert {("v1", "Pod"), ("apps/v1", "StatefulSet")} <= reachable([("postgresql.example.com/v1", "Cluster")])


def test_an_absent_object_is_shown() -> None:
    lines = drawn(
        Inventory(root=node("Application", "web", node("ConfigMap", "gone", state=ABSENT)), kinds=frozenset())
    )
    assert lines[-1].split() == ["└─", "ConfigMap/gone", "75s", "absent"]
