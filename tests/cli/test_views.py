"""What people read: tables and descriptions in narrow and wide terminals."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType

from windlass.cli.output import age
from windlass.cli.views import description, list_table, version_text
from windlass.contracts.objects import Application
from windlass.ports import ObjectRef

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = NOW.isoformat().replace("+00:00", "Z")


def application(**status: Any) -> Application:
    obj: dict[str, Any] = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 2, "creationTimestamp": STAMP},
        "spec": {"package": {"repository": "examples", "name": "webapp", "version": "1.1.0"}},
    }
    return Application.model_validate({**obj, "status": status} if status else obj)


def ready(status: str, reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": STAMP}]


def drawn(what: RenderableType, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width, highlight=False).print(what)
    return output.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_a_line_of_the_list_fits_a_terminal(width: int) -> None:
    status = {"version": "1.0.0", "phase": "Upgrading", "conditions": ready("False", "ManifestsApply")}
    head, line, *more = drawn(list_table([application(**status)], wide=False, namespaces=True), width).splitlines()
    assert not more
    assert head.split() == ["NAMESPACE", "NAME", "PACKAGE", "VERSION", "PHASE", "READY", "REASON", "AGE"]
    assert line.split()[:7] == ["shop", "web", "webapp", "1.0.0→1.1.0", "Upgrading", "False", "ManifestsApply"]


def test_progress_stands_beside_the_reason() -> None:
    status = {"conditions": ready("False", "ManifestsApply"), "progress": {"completed": 2, "remaining": 1}}
    assert "ManifestsApply (2/3 ready)" in drawn(list_table([application(**status)], wide=False, namespaces=False), 120)


def test_markup_in_names_and_messages_is_text() -> None:
    status = {"conditions": ready("False", "[bold]x[/bold]", "[red]message[/red]"), "phase": "Installing"}
    text = drawn(description(application(**status), [], [], NOW), 120)
    assert "[bold]x[/bold]: [red]message[/red]" in text


def test_a_package_nobody_has_looked_at_says_what_to_start() -> None:
    text = drawn(description(application(), [], [], NOW), 80)
    assert "windlass worker" in text
    assert "Conditions" not in text


def test_a_failure_says_what_where_and_what_to_do() -> None:
    failure = {
        "step": "ApplySettings",
        "reason": "ValidationFailed",
        "message": "the settings break 1 rule:\nsettings.replicas: must be at most 20 (given 50)",
        "hint": "correct the settings",
        "actor": "user",
        "attempt": 3,
        "nextTry": (NOW + timedelta(seconds=90)).isoformat(),
    }
    text = drawn(description(application(conditions=ready("False", "ValidationFailed"), failure=failure), [], [], NOW), 80)
    assert "Failed  ApplySettings: ValidationFailed, attempt 3" in text
    assert "settings.replicas: must be at most 20 (given 50)" in text
    assert "To do: correct the settings (user must act)" in text
    assert "Next try in 90 s" in text


def test_a_description_has_objects_orders_and_events() -> None:
    status = {
        "conditions": ready("True", "Ready"),
        "orders": [{"order": "pause", "who": "ann", "why": "rehearsal", "at": STAMP}],
        "workflow": {"id": "windlass/package/shop.web", "link": "http://127.0.0.1/w"},
    }
    event = {"eventTime": STAMP, "type": "Warning", "reason": "ReadinessTimeout", "note": "first\nsecond"}
    objects = [(ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="w"), "in progress: 1 of 2")]
    text = drawn(description(application(**status), [event], objects, NOW + timedelta(seconds=5)), 100)
    for part in ("http://127.0.0.1/w", "Deployment/w", "in progress: 1 of 2", "ann", "rehearsal", "first …"):
        assert part in text, part


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0s"), (0, "0s"), (119, "119s"), (185, "3m5s"), (4 * 3600, "4h"), (200_000, "2d")]
)
def test_ages_are_kubectls(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_the_version_names_both_while_they_differ() -> None:
    assert version_text(application(version="1.1.0")) == "1.1.0"
    assert version_text(application(version="1.0.0")) == "1.0.0→1.1.0"
    assert version_text(application()) == "→1.1.0"
