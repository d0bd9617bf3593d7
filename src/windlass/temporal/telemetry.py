"""Lets the Temporal SDK log through `windlass.logs`: its Rust core, its workers, its workflows."""

from __future__ import annotations

import logging
from typing import Final

from temporalio import activity, workflow
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

_CORE: Final = "temporalio.core"


def runtime() -> Runtime:
    """Return an SDK runtime whose core logs to the standard library's ``temporalio.core``; one per process.

    Without it the core writes lines of its own form to standard error. Also keeps the SDK from writing workflow and
    activity into every message, since `windlass.logs` shows them as keys.
    """
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    forwarding = LogForwardingConfig(
        logging.getLogger(_CORE), append_target_to_name=False, prepend_target_on_message=False
    )
    core = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    return Runtime(telemetry=TelemetryConfig(logging=core))
