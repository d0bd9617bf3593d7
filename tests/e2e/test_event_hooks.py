"""Hooks that follow objects, as their authors see them: what they are told, when, together with what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_package
from support.running import keep, packages, running, shown
from support.waiting import eventually
from windlass.devstack.stack import Stack
from windlass.ports.kube import Object

type Run = list[dict[str, Any]]
"""The binding context of one run."""


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One installation for all tests here."""
    async with running(stack, tmp_path_factory.mktemp("event-hooks")) as made:
        yield made


class Journal:
    """A hook in shell that appends the context of each run to a file, and reads it here."""

    def __init__(self, folder: Path, name: str = "journal") -> None:
        self.file = folder / name

    def hook(self, *bindings: dict[str, Any], body: str = "", **others: Any) -> str:
        config = json.dumps({"configVersion": "v1", "kubernetes": list(bindings), **others})
        return (
            f"#!/bin/bash\nif [ \"$1\" = --config ]; then cat <<'END'\n{config}\nEND\nexit 0; fi\n{body}\n"
            f'{{ cat "$BINDING_CONTEXT_PATH"; echo; }} >> {self.file}\n'
        )

    @property
    def runs(self) -> list[Run]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    @property
    def items(self) -> Run:
        """Everything that was told, run by run."""
        return [item for run in self.runs for item in run]

    async def reaches(self, count: int, *, within: float = 30) -> list[Run]:
        """Wait for so many runs."""

        def reached() -> list[Run]:
            return self.runs if len(self.runs) >= count else []

        return await eventually(reached, within, what=f"{count} runs in {self.file.name}")

    async def told(self, change: str, name: str, *, within: float = 30) -> dict[str, Any]:
        """Wait for an event of this kind about the object of this name; return the last one."""

        def heard() -> dict[str, Any] | None:
            found = [one for one in self.items if one.get("watchEvent") == change and named(one) == name]
            return found[-1] if found else None

        return await eventually(heard, within, what=f"{change} {name}")


def named(item: dict[str, Any]) -> str:
    """Return the name of the object that an item shows."""
    return item["object"]["metadata"]["name"]


def write(installation: Installation, name: str, **hooks: str) -> None:
    """Write version 1.0.0 of a package of this name with these hooks."""
    write_package(
        packages(installation),
        name,
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        hooks={f"{file}.sh": text for file, text in hooks.items()},
    )


async def put(installation: Installation, name: str, app: str, **data: str) -> Object:
    """Create or change a ConfigMap with the label ``app``."""
    metadata = {"name": name, "namespace": installation.namespace, "labels": {"app": app}}
    return await installation.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


async def drop(installation: Installation, name: str) -> None:
    """Delete a ConfigMap."""
    await installation.kube.delete(installation.ref("ConfigMap", name))


def labelled(app: str, **more: Any) -> dict[str, Any]:
    """Return a binding to the ConfigMaps with the label ``app``."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": app}}, **more}


async def test_a_hook_is_told_of_what_exists_and_then_of_every_change(
    installation: Installation, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    write(installation, "following", hook=journal.hook(labelled("following", name="maps"), beforeHelm=1))
    await put(installation, "b-one", "following", x="1")
    await put(installation, "a-two", "following", x="1")
    await put(installation, "other", "somebody", x="1")
    await installation.application("follow", "following", "1.0.0")
    await installation.ready("follow")

    (synchronization,), (before_helm,) = journal.runs
    assert {**synchronization, "objects": []} == {"binding": "maps", "type": "Synchronization", "objects": []}
    assert [named(one) for one in synchronization["objects"]] == ["a-two", "b-one"]
    first = synchronization["objects"][0]["object"]
    assert (first["kind"], first["apiVersion"], first["data"]) == ("ConfigMap", "v1", {"x": "1"})
    assert before_helm["binding"] == "beforeHelm"
    assert [named(one) for one in before_helm["snapshots"]["maps"]] == ["a-two", "b-one"]

    await put(installation, "c-three", "following", x="1")
    added = await journal.told("Added", "c-three")
    assert (added["binding"], added["type"], added["object"]["data"]) == ("maps", "Event", {"x": "1"})
    assert set(added) == {"binding", "type", "watchEvent", "object"}
    await put(installation, "c-three", "following", x="2")
    assert (await journal.told("Modified", "c-three"))["object"]["data"] == {"x": "2"}
    await drop(installation, "c-three")
    assert (await journal.told("Deleted", "c-three"))["object"]["data"] == {"x": "2"}
    # Out of the selection is deleted, into it is added.
    await put(installation, "b-one", "nobody", x="1")
    await journal.told("Deleted", "b-one")
    assert not [one for one in journal.items if one.get("type") == "Event" and named(one) == "other"]
    await keep(installation, "follow", "event-hooks")

    await installation.delete("follow")
    await installation.gone("follow")
    told = len(journal.runs)
    await put(installation, "a-two", "following", x="3")
    assert len(journal.runs) == told
    await keep(installation, "follow", "removal-with-event-hooks")


async def test_a_filter_decides_what_counts_as_a_change(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    binding = labelled("filtered", jqFilter=".data | {x}", keepFullObjectsInMemory=False)
    write(installation, "filtering", hook=journal.hook(binding))
    await put(installation, "f-one", "filtered", x="1", y="1")
    await installation.application("filter", "filtering", "1.0.0")
    await installation.ready("filter")
    assert journal.runs == [
        [{"binding": "kubernetes", "type": "Synchronization", "objects": [{"filterResult": {"x": "1"}}]}]
    ]
    await put(installation, "f-one", "filtered", x="1", y="2")
    await put(installation, "f-one", "filtered", x="2", y="2")
    runs = await journal.reaches(2)
    event = {"binding": "kubernetes", "type": "Event", "watchEvent": "Modified", "filterResult": {"x": "2"}}
    assert runs[1:] == [[event]]
    assert condition(await installation.ready("filter"), "HooksProcessed")["status"] == "True"


async def test_values_that_an_event_changes_are_released(installation: Installation, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    body = (
        'x=$(python3 -c \'import json,os; c=json.load(open(os.environ["BINDING_CONTEXT_PATH"]));'
        ' print(c[-1].get("filterResult") or "none")\')\n'
        'echo "{\\"op\\": \\"add\\", \\"path\\": \\"/releasing/greeting\\", \\"value\\": \\"$x\\"}"'
        ' > "$VALUES_JSON_PATCH_PATH"'
    )
    write(installation, "releasing", hook=journal.hook(labelled("released", jqFilter=".data.x"), body=body))
    await installation.application("releases", "releasing", "1.0.0")
    await installation.ready("releases")
    assert (await shown(installation, "releases"))["greeting"] == "none"
    await put(installation, "r-one", "released", x="hey")

    async def greeted() -> bool:
        return (await shown(installation, "releases"))["greeting"] == "hey"

    await eventually(greeted, 30, what="the event's value is released")
    await installation.ready("releases")
