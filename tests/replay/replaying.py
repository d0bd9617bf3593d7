"""Replays recorded histories as a worker would: production converter under the fixed key, production sandbox."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

from replay.keyring import REPLAY_KEYRING, REPLAY_NAMESPACE
from replay.paths import started
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from windlass import workflows as package
from windlass.temporal.converter import data_converter
from windlass.worker.sandbox import workflow_runner


def workflow_classes() -> list[type]:
    """Return every class of `windlass.workflows` that is a workflow definition."""
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return [
        found
        for module in modules
        for found in vars(module).values()
        if isinstance(found, type)
        and found.__module__ == module.__name__
        and "__temporal_workflow_definition" in vars(found)
    ]


def read(file: Path) -> WorkflowHistory:
    """Read a recorded history; the workflow id stands in its first event."""
    text = file.read_text()
    return WorkflowHistory.from_json(started(json.loads(text))["workflowId"], text)


async def replay(history: WorkflowHistory, workflows: list[type]) -> None:
    """Replay; raises what Temporal raises when the commands differ or a payload cannot be read."""
    replayer = Replayer(
        workflows=workflows,
        workflow_runner=workflow_runner(),
        data_converter=data_converter(REPLAY_KEYRING),
        namespace=REPLAY_NAMESPACE,
    )
    await replayer.replay_workflow(history)
