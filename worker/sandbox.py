"""The workflow sandbox: on, always. What is passed through is deterministic and costly to load again.

`windlass` and `windlass.workflows` must never stand in this list: passing the package that holds the workflows switches
the clock checks off (measured; design section 5).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final, override

from temporalio.api.enums.v1 import CommandType
from temporalio.converter import SerializationContext, StorageDriverStoreContext, WorkflowSerializationContext
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

# The SDK has no public way to let instances share their modules; see `_SharingRunner`.
from temporalio.worker._command_aware_visitor import CommandInfo
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext
from temporalio.worker.workflow_sandbox._runner import _Instance as SandboxedInstance  # pyright: ignore[reportPrivateUsage]

PASSED_THROUGH: Final = (
    "windlass.domain",
    "windlass.contracts",
    "windlass.activities",
    "windlass.temporal",
    "windlass.ports",
    "windlass.workflows._options",
    "windlass.workflows._transitions",
    "windlass.logs",
    "structlog",
    "yaml",
    "jsonschema",
    "jsonpatch",
    "semver",
    "cryptography",
)

_TO_OTHERS: Final = frozenset(
    {
        CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SCHEDULE_NEXUS_OPERATION,
    }
)
"""Commands whose payloads belong to another workflow, or to none."""

_NOWHERE: Final = StorageDriverStoreContext(target=None)


def workflow_runner() -> WorkflowRunner:
    """Return the runner that workers and the replayer use alike."""
    return _SharingRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


@dataclass(frozen=True)
class _SharingRunner(SandboxedWorkflowRunner):
    """Loads the modules of a workflow type into the sandbox once for all of its instances.

    The SDK loads them anew for each: 7.5 ms on the event loop and 250 KB of memory for a `PackageLifecycle`, so that
    what one run leaves in a module is not seen by another. Ours keep nothing there (`tests/architecture` holds it); all
    restrictions are as they were.
    """

    importers: dict[str, Importer] = field(default_factory=dict[str, Importer], init=False)

    @override
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        module = det.defn.cls.__module__
        importer = self.importers.get(module)
        if importer is None:
            importer = Importer(self.restrictions, _ThreadContext(), workflow_module_name=module)
            self.importers[module] = importer
        return _Instance(det, importer)


class _ThreadContext(threading.local, RestrictionContext):
    """Says of each thread whether it runs a workflow now: several do so at a time in modules that they share."""


class _Instance(SandboxedInstance):
    """One run of a workflow, in modules that it shares.

    The SDK asks for serialization context and external storage with every single payload, and would answer by compiling
    and running code in the sandbox (16 of 90 ms of CPU per installation). There is no external storage, and payloads
    are bound to a workflow id: the run's own, but for what goes to another workflow, for which the SDK is asked.
    """

    def __init__(self, details: WorkflowInstanceDetails, importer: Importer) -> None:
        # In the place of the SDK's own constructor, which makes an importer for each instance.
        self.instance_details = details
        self.runner_class = UnsandboxedWorkflowRunner
        self.importer = importer
        self._current_thread_id = None
        self.globals_and_locals = {"__file__": "workflow_sandbox.py"}
        self._own = WorkflowSerializationContext(details.info.namespace, details.info.workflow_id)
        self._create_instance()

    @override
    def get_serialization_context(self, command_info: CommandInfo | None) -> SerializationContext | None:
        if command_info is not None and command_info.command_type in _TO_OTHERS:
            return super().get_serialization_context(command_info)
        return self._own

    @override
    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return _NOWHERE
