"""What is shown of a lifecycle from inside: shapes that operators of older package runtimes know."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from windlass.contracts.lifecycle import DumpView, QueuedStep
from windlass.contracts.objects import PackageObject
from windlass.domain.lifecycle.policy import Control


def package_dump(view: DumpView, package: PackageObject) -> dict[str, Any]:
    """Return one package: status, content, hooks, and what is remembered of it. No values, only their digests."""
    state, progress = view.state, view.state.progress
    artifact, held = progress.artifact, state.control.held
    tracking = package.status.progress if package.status else None
    dumped: dict[str, Any] = {
        "status": {
            "version": state.version,
            "conditions": [
                {
                    "type": one.type.value,
                    "status": one.status.value,
                    "reason": one.reason,
                    **({"message": one.message} if one.message else {}),
                }
                for one in state.conditions
            ],
            "tracking": {
                "completed": tracking.completed if tracking else 0,
                "remaining": tracking.remaining if tracking else 0,
                "waitingFor": list(tracking.waiting_for) if tracking else [],
            },
        },
        "name": view.key.name,
        "namespace": view.key.namespace,
        "running": bool(view.running),
        "step": view.running or (package.status.step if package.status else None),
        "paused": state.paused,
        "breakpoints": [one.value for one in state.control.breakpoints],
        "held": {"step": held.step, "cause": held.cause.value, "reason": held.reason} if held else None,
        "rejected": _rejected(state.control),
        "goodRevisions": [one.revision for one in state.control.good],
        "definition": {
            "name": artifact.source.package if artifact else package.spec.package.name,
            "version": artifact.exact if artifact else package.spec.package.version,
        },
        "repository": {"name": artifact.source.repository if artifact else package.spec.package.repository},
        "digests": {"content": artifact.digest if artifact else "", "settings": progress.settings},
        "hooks": [one.path for one in progress.loaded.hooks] if progress.loaded else [],
        "release": state.release.to_object() if state.release else None,
        "failure": state.failure.model_dump(mode="json") if state.failure else None,
        "actions": [one.to_object() for one in state.actions],
        "historyEvents": view.history_events,
    }
    return {key: value for key, value in dumped.items() if value is not None}


def _rejected(control: Control) -> dict[str, Any] | None:
    if control.rejected is None or control.target is None:
        return None
    source = control.rejected.source
    return {
        "version": source.version if source else "",
        "step": control.rejected.step,
        "reason": control.rejected.reason,
        "instead": control.target.text,
    }


def queue_dump(steps: Sequence[QueuedStep], now: datetime) -> dict[str, Any]:
    """Return one queue: its length and its steps, the head with what failed and seconds until the next try."""
    return {"length": len(steps), "tasks": [_task(step, now) for step in steps]}


def _task(step: QueuedStep, now: datetime) -> dict[str, Any]:
    task: dict[str, Any] = {"index": step.index, "name": step.name, "scope": step.scope}
    if step.running:
        task["running"] = True
    if step.error:
        task |= {"attempt": step.attempt, "error": step.error}
    if step.held:
        task["held"] = step.held
    if step.next_try is not None:
        task["next_retry"] = f"{max((step.next_try - now).total_seconds(), 0.0):.1f}s"
    return task
