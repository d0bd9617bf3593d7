"""The workflow sandbox: on, always. What is passed through is deterministic and costly to load again for each run.

`windlass` and `windlass.workflows` must never stand in this list: passing the package that holds the workflows switches
the clock checks off (measured; design section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, override

from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import (
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

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


def workflow_runner() -> WorkflowRunner:
    """Return the runner that workers and the replayer use alike."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return _ContextFreeRunner(SandboxedWorkflowRunner(restrictions=restrictions))


_NOWHERE: Final = StorageDriverStoreContext(target=None)


class _ContextFreeRunner(WorkflowRunner):
    """Runs workflows in ``inner``, for a data converter that reads no serialization context and no external storage.

    The SDK asks the instance for both with every single payload, and a sandboxed one answers by compiling and running
    code inside: 16 of 90 ms of CPU per installation, for answers that our converter never looks at.
    """

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner

    @override
    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    @override
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _ContextFreeInstance(self._inner.create_instance(det))

    @override
    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._inner.set_worker_level_failure_exception_types(types)


class _ContextFreeInstance(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    @override
    def activate(self, act: Any) -> Any:
        return self._inner.activate(act)

    @override
    def get_serialization_context(self, command_info: object) -> None:
        return None

    @override
    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return _NOWHERE

    @override
    def get_info(self) -> Any:
        return self._inner.get_info()

    @override
    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
