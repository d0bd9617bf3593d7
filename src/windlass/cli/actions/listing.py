"""``windlass get actions``: what was asked for, by whom, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from windlass.cli.output import Output, age, console, emit, rows
from windlass.contracts.actions import INSPECT, ActionRequest, parse_request
from windlass.domain.ids import API_VERSION, GROUP

if TYPE_CHECKING:
    from rich.table import Table

    from windlass.cli.cluster import Cluster

WORDS: Final = frozenset({"actions", "action", "actionrequests", "actionrequest", f"actionrequests.{GROUP}", "wact"})


async def list_actions(place: Cluster, output: Output, *, all_namespaces: bool) -> None:
    """Print the requests of a namespace, or of all, oldest first."""
    found = await place.kube.list(API_VERSION, "ActionRequest", namespace="" if all_namespaces else place.namespace)
    known = [parse_request(item) for item in found.items]
    requests = sorted((one for one in known if one.spec.action != INSPECT), key=lambda one: one.created)
    if output in {Output.JSON, Output.YAML}:
        emit({"apiVersion": "v1", "kind": "List", "items": [one.to_object() for one in requests]}, output)
        return
    if not requests:
        where = "any namespace" if all_namespaces else f"namespace {place.namespace}"
        sys.stderr.write(f"No action requests in {where}.\n")
        return
    console().print(action_table(requests, datetime.now(UTC), namespaces=all_namespaces))


def action_table(requests: Sequence[ActionRequest], now: datetime, *, namespaces: bool = False) -> Table:
    """Return one line for each request."""
    head = ["ACTION", "TARGET", "WHO", "PHASE", "AGE", "MESSAGE"]
    lines = [_line(one, now) for one in requests]
    if namespaces:
        head = ["NAMESPACE", *head]
        lines = [[one.metadata.namespace, *line] for one, line in zip(requests, lines, strict=True)]
    return rows(head, lines, whole={"PHASE", "AGE"})


def _line(request: ActionRequest, now: datetime) -> list[str]:
    status, spec = request.status, request.spec
    return [
        f"{spec.action} {spec.detail or ''}".rstrip(),
        f"{spec.target.kind.lower()}/{spec.target.name}",
        spec.who or "",
        (status.phase if status else None) or "Pending",
        age(request.created, now),
        (status.message if status else None) or "",
    ]
