"""The workflow sandbox: on, always. What is passed through is deterministic and costly to load again.

`windlass` and `windlass.workflows` must never stand in this list: passing the package that holds the workflows switches
the clock checks off (measured; design section 5).
"""

from __future__ import annotations

from typing import Final

import structlog
from temporalio.worker import WorkflowRunner
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


_log = structlog.stdlib.get_logger(__name__)


def workflow_runner() -> WorkflowRunner:
    """Return the runner that workers and the replayer use alike.

    Where the SDK is not what `windlass.worker.shared_sandbox` stands on, it is the SDK's own, which loads all modules
    anew for each workflow: slower (7.5 ms a run) and larger (250 KB), and otherwise the same.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    try:
        from windlass.worker import shared_sandbox as shared  # noqa: PLC0415 - the import itself may fail

        found = list(shared.differences())
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        found = [f"{type(error).__name__}: {error}"]
    else:
        if not found:
            return shared.SharingRunner(restrictions=restrictions)
    _log.warning(
        "workflows share no modules: this version of temporalio is not known",
        differences=found,
        hint="install a version that pyproject.toml admits",
    )
    return SandboxedWorkflowRunner(restrictions=restrictions)
