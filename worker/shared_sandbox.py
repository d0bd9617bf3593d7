"""A sandbox whose instances share their modules: it stands on names of the SDK that are not public.

Imported by `windlass.worker.sandbox` only, which does without it where the SDK has changed.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, override

from temporalio.api.enums.v1 import CommandType
from temporalio.converter import SerializationContext, StorageDriverStoreContext, WorkflowSerializationContext
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

# The SDK has no public way to let instances share their modules; see `SharingRunner`.
from temporalio.worker._command_aware_visitor import CommandInfo
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext
from temporalio.worker.workflow_sandbox._runner import _Instance as SandboxedInstance  # pyright: ignore[reportPrivateUsage]

_TO_OTHERS: Final = frozenset(
    {
        CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SCHEDULE_NEXUS_OPERATION,
    }
)
"""Commands whose payloads belong to another workflow, or to none."""

_NOWHERE: Final = StorageDriverStoreContext(target=None)

_IMPORTER: Final = ("restrictions", "restriction_context", "workflow_module_name")
_INSTANCE: Final = ("_create_instance", "get_serialization_context", "get_external_store_context")
_SETS: Final = frozenset({"instance_details", "runner_class", "importer", "_current_thread_id", "globals_and_locals"})
"""What the SDK's own constructor sets, and ours in its place."""


def differences() -> Iterator[str]:
    """Yield where the SDK is not what this module stands on; nothing if it is."""
    parameters = tuple(inspect.signature(Importer).parameters)
    if parameters != _IMPORTER:
        yield f"Importer takes {parameters}"
    if inspect.signature(RestrictionContext).parameters:
        yield "RestrictionContext takes arguments"
    for name in _INSTANCE:
        if not callable(getattr(SandboxedInstance, name, None)):
            yield f"_Instance has no {name}"
    found = frozenset(SandboxedInstance.__init__.__code__.co_names) & _SETS
    if found != _SETS:
        yield f"_Instance does not set {', '.join(sorted(_SETS - found))}"


@dataclass(frozen=True)
class SharingRunner(SandboxedWorkflowRunner):
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
