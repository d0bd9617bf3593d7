"""A hook that notes what it is told, and the objects it is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.installation import CONFIG_MAP, GREETING, Installation, write_package
from support.running import packages
from support.waiting import PATIENCE, eventually
from windlass.ports.kube import Object

type Run = list[dict[str, Any]]
"""The binding context of one run."""


class Journal:
    """A hook in shell that puts the context of each run that ends into a folder, and reads them here.

    A run is there whole or not at all, whenever its hook is killed.
    """

    def __init__(self, folder: Path, name: str = "journal") -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.folder.chmod(0o777)

    def hook(self, *bindings: dict[str, Any], body: str = "", **others: Any) -> str:
        config = json.dumps({"configVersion": "v1", "kubernetes": list(bindings), **others})
        return (
            f"#!/bin/bash\nif [ \"$1\" = --config ]; then cat <<'END'\n{config}\nEND\nexit 0; fi\n{body}\n"
            f'run={self.folder}/${{EPOCHREALTIME/[.,]/}}-$$; cp "$BINDING_CONTEXT_PATH" $run && mv $run $run.json\n'
        )

    @property
    def runs(self) -> list[Run]:
        """The contexts of the runs that have ended, in their order."""
        return [json.loads(file.read_text()) for file in sorted(self.folder.glob("*.json"))]

    @property
    def items(self) -> Run:
        """Everything that was told, run by run."""
        return [item for run in self.runs for item in run]

    async def reaches(self, count: int, *, within: float = PATIENCE) -> list[Run]:
        """Wait for so many runs."""

        def reached() -> list[Run]:
            return self.runs if len(self.runs) >= count else []

        return await eventually(reached, within, what=f"{count} runs in {self.folder.name}")

    async def told(self, change: str, name: str, *, within: float = PATIENCE) -> dict[str, Any]:
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
