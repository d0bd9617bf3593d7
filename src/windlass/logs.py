"""Logging of worker, watcher, CLI and web: structlog and the standard library through one renderer, to stderr.

Events are lower-case words, data are keys. The keys of `context` are the vocabulary that logs, metrics and search
attributes share. Nothing that may hold secrets is logged; the renderer redacts by key what slips through.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from windlass.domain.errors import cap

type Format = Literal["console", "json"]

_SECRET_WORDS: Final = (
    "apikey",
    "authorization",
    "certificate",
    "credential",
    "digest_key",
    "keyring",
    "kubeconfig",
    "password",
    "private",
    "secret_data",
    "settings",
    "token",
    "values",
)
_REDACTED: Final = "[redacted]"

# What Temporal's loggers pass beside a message, in our words.
_TEMPORAL_EXTRAS: Final = ("temporal_activity", "temporal_workflow")
_TEMPORAL_WORDS: Final = {
    "activity_type": "activity",
    "attempt": "attempt",
    "workflow_id": "workflow_id",
    "run_id": "run_id",
    "workflow_run_id": "run_id",
}


def configure(form: Format, level: str = "info", *, stream: TextIO | None = None) -> None:
    """Set logging up for this process; calling it again replaces the former set-up.

    Args:
        form: ``console`` for people (colours on a terminal unless ``NO_COLOR`` is set), ``json`` for machines.
        level: debug, info, warning or error.
        stream: where to; standard error if not given.

    Raises:
        ValueError: ``level`` is none of these.
    """
    out = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                *shared,
                structlog.stdlib.ExtraAdder(allow=_TEMPORAL_EXTRAS),
                _translate_temporal,
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _redact,
                *_renderers(form, out),
            ],
        )
    )
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("asyncio").addFilter(_worth_telling)
    # Failed activities are told by `windlass.temporal.interceptors`, in one line and in our words.
    logging.getLogger("temporalio.activity").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def context(
    *,
    package: str = "",
    cluster: str = "",
    step: str = "",
    revision: int = 0,
    workflow_id: str = "",
    run_id: str = "",
    activity: str = "",
    attempt: int = 0,
) -> AbstractContextManager[Any]:
    """Bind these to every log line inside the ``with`` block, tasks started there included; empty ones are left out.

    Args:
        package: package id.
        cluster: target cluster of a service set.
        step: step of the lifecycle.
        revision: Helm revision.
        workflow_id: Temporal workflow id.
        run_id: Temporal run id.
        activity: activity type.
        attempt: attempt of the activity, from 1.
    """
    given: dict[str, str | int] = {
        "package": package,
        "cluster": cluster,
        "step": step,
        "revision": revision,
        "workflow_id": workflow_id,
        "run_id": run_id,
        "activity": activity,
        "attempt": attempt,
    }
    return structlog.contextvars.bound_contextvars(**{key: value for key, value in given.items() if value})


def _renderers(form: Format, out: TextIO) -> list[Processor]:
    if form == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    colours = out.isatty() and not os.environ.get("NO_COLOR")
    # Plain traces: the rich kind shows local variables, and these hold values.
    return [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)]


def _worth_telling(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says whenever a TLS connection of nats-py ends: nothing follows from it."""
    return "eof_received() has no effect" not in record.getMessage()


def _translate_temporal(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for extra in _TEMPORAL_EXTRAS:
        facts = event.pop(extra, None)
        if isinstance(facts, dict):
            for word, value in cast("dict[str, object]", facts).items():
                if word in _TEMPORAL_WORDS:
                    event.setdefault(_TEMPORAL_WORDS[word], value)
    return event


def _redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = _REDACTED
        elif isinstance(value, str):
            event[key] = cap(value)
    return event
