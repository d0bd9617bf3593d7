"""The workflow sandbox: on, always. What is passed through is deterministic and costly to load again for each run.

`windlass` and `windlass.workflows` must never stand in this list: passing the package that holds the workflows switches
the clock checks off (measured; design section 5).
"""

from __future__ import annotations

from typing import Final

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH: Final = (
    "windlass.domain",
    "windlass.contracts",
    "windlass.activities",
    "windlass.temporal",
    "windlass.ports",
    "windlass.logs",
    "structlog",
    "yaml",
    "jsonschema",
    "jsonpatch",
    "semver",
    "cryptography",
)


def workflow_runner() -> SandboxedWorkflowRunner:
    """Return the runner that workers and the replayer use alike."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
