"""Lets the Temporal SDK log through `windlass.logs`: its Rust core, its workers, its workflows."""

from __future__ import annotations

import logging
from typing import Final

from temporalio import activity, workflow
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

_CORE: Final = "temporalio.core"


def runtime(metrics_port: int | None = None) -> Runtime:
    """Return an SDK runtime whose core logs to the standard library's ``temporalio.core``; one per process.

    Without it the core writes lines of its own form to standard error. Also keeps the SDK from writing workflow and
    activity into every message, since `windlass.logs` shows them as keys.

    Args:
        metrics_port: loopback port where the SDK shows its metrics to Prometheus; None for no metrics.
    """
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False
    forwarding = LogForwardingConfig(
        logging.getLogger(_CORE), append_target_to_name=False, prepend_target_on_message=False
    )
    core = LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    metrics = None
    if metrics_port is not None:
        metrics = PrometheusConfig(
            bind_address=f"127.0.0.1:{metrics_port}",
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
        )
    return Runtime(telemetry=TelemetryConfig(logging=core, metrics=metrics))
