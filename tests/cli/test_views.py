"""What people read: tables and descriptions in narrow and wide terminals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any, Final

import pytest
from rich.console import Console, RenderableType

from windlass.cli.packages.views import SHOWN, WIDE, description, list_table, version_text
from windlass.contracts.objects import Application, Module
from windlass.ports.kube import ObjectRef

NOW: Final = datetime(2026, 1, 1, 0, 5, 0, tzinfo=UTC)
DIGEST: Final = "sha256:" + "0123456789ab" * 5 + "cdef"
LONG_NAME: Final = "a-name-as-long-as-a-release-may-be-with-53-characters"
HEADS: Final = ["NAMESPACE", "NAME", "PACKAGE", "VERSION", "PHASE", "READY", "REASON", "AGE"]
MORE: Final = ["STEP", "REVISION", "DIGEST"]


def stamp(**before: float) -> str:
    return (NOW - timedelta(**before)).isoformat().replace("+00:00", "Z")


def application(status: dict[str, Any] | None = None, *, name: str = "web", **spec: Any) -> Application:
    return Application.model_validate(
        {
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": stamp(minutes=3, seconds=5)},
            "spec": {"package": {"repository": "demo", "name": "webapp", "version": "1.1.0"}, **spec},
            **({"status": status} if status is not None else {}),
        }
    )


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    at = stamp(seconds=9)
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


READY: Final[dict[str, Any]] = {
    "phase": "Running",
    "version": "1.1.0",
    "digest": DIGEST,
    "release": {"name": "shop.web", "namespace": "shop", "revision": 7},
    "conditions": [condition("Ready", "True", "Reconciled"), condition("HelmApplied", "True", "Applied")],
    "workflow": {"id": "windlass/package/shop.web", "link": "http://ui/namespaces/default/workflows/x"},
}

FAILED: Final[dict[str, Any]] = {
    "phase": "Failed",
    "step": "ApplySettings",
    "version": "1.0.0",
    "conditions": [condition("Ready", "False", "ValidationFailed", "settings.replicas is 9\nmore")],
    "failure": {
        "step": "ApplySettings",
        "reason": "ValidationFailed",
        "message": "settings.replicas is 9, at most 3\nsettings.mode is [bold]x[/bold]",
        "hint": "correct spec.settings",
        "actor": "user",
        "attempt": 4,
        "nextTry": (NOW + timedelta(seconds=42)).isoformat(),
    },
}


def drawn(what: RenderableType, width: int = 160) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, highlight=False).print(what)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def listed(*applications: Application, wide: bool = False, namespaces: bool = False, width: int = 160) -> list[str]:
    return drawn(list_table(applications, wide=wide, namespaces=namespaces), width)


def told(one: Application, *events: dict[str, Any], objects: Any = (), width: int = 160) -> list[str]:
    return drawn(description(one, events, objects, NOW), width)


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"eventTime": stamp(seconds=100 - number), "type": "Normal", "reason": f"R{number}", "note": "n"} | fields


# -- lists -----------------------------------------------------------------------------------------------------------


def test_one_line_for_each_package() -> None:
    head, *lines = listed(application(READY), application(name="new"))
    assert head.split() == HEADS[1:]
    assert lines[0].split()[:6] == ["web", "webapp", "1.1.0", "Running", "True", "Reconciled"]
    assert lines[1].split()[:5] == ["new", "webapp", "→1.1.0", "Pending", "Unknown"]
    assert len(lines) == 2


def test_wide_adds_step_revision_and_digest() -> None:
    head, line = listed(application({**READY, "step": "Idle"}), wide=True, namespaces=True)
    assert head.split() == HEADS + MORE
    assert line.split()[0] == "shop"
    assert line.split()[-3:] == ["Idle", "7", "0123456789ab"]


@pytest.mark.parametrize("width", [80, 160])
def test_a_line_of_the_list_fits_a_terminal(width: int) -> None:
    head, line = listed(application({**READY, "version": "1.0.0"}), namespaces=True, width=width)
    assert head.split() == HEADS
    assert line.split()[:7] == ["shop", "web", "webapp", "1.0.0→1.1.0", "Running", "True", "Reconciled"]


@pytest.mark.parametrize(("width", "wide"), [(80, False), (160, False), (WIDE, True), (160, True)])
def test_long_texts_are_folded_below_their_heads_and_nothing_is_lost(width: int, wide: bool) -> None:
    busy = {**FAILED, "step": "UpgradeRelease", "digest": DIGEST, "progress": {"completed": 1, "remaining": 2}}
    head, *lines = listed(application(busy, name=LONG_NAME), wide=wide, width=width)
    heads = HEADS[1:] + (MORE if wide else [])
    assert head.split() == heads, "heads stay whole"
    starts = [head.index(f" {one}") + 1 if at else 0 for at, one in enumerate(heads)]
    columns = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    cells = dict(zip(heads, ("".join(line[column].strip() for line in lines) for column in columns), strict=True))
    assert cells["NAME"] == LONG_NAME
    assert cells["VERSION"] == "1.0.0→1.1.0"
    assert cells["REASON"].replace(" ", "") == "ValidationFailed(1/3ready)"
    assert not wide or cells["STEP"] == "UpgradeRelease"
    assert not wide or cells["DIGEST"] == "0123456789ab"


@pytest.mark.parametrize(("running", "shown"), [("1.1.0", "1.1.0"), ("1.0.0", "1.0.0→1.1.0"), (None, "→1.1.0")])
def test_the_version_that_runs_and_the_one_that_is_wanted(running: str | None, shown: str) -> None:
    assert version_text(application({"version": running} if running else {})) == shown


@pytest.mark.parametrize(
    ("wanted", "phase", "shown"),
    [
        ("^1.0", "Running", "1.1.0"),
        ("^1.0", "Upgrading", "1.1.0→^1.0"),
        ("^2.0", "Running", "1.1.0→^2.0"),
        ("1.1.0", "Upgrading", "1.1.0"),
        (f"1.1.0@sha256:{'a' * 64}", "Running", "1.1.0"),
    ],
)
def test_a_version_that_the_range_admits_stands(wanted: str, phase: str, shown: str) -> None:
    package = application({"version": "1.1.0", "phase": phase})
    package.spec.package.version = wanted
    assert version_text(package) == shown


def test_progress_stands_beside_the_reason() -> None:
    status = {**FAILED, "progress": {"completed": 1, "remaining": 2}}
    assert "ValidationFailed (1/3 ready)" in listed(application(status))[1]


# -- descriptions ----------------------------------------------------------------------------------------------------


def test_a_failure_says_what_where_what_to_do_and_when_next() -> None:
    lines = told(application(FAILED))
    at = lines.index("Failed  ApplySettings: ValidationFailed, attempt 4")
    assert lines[at + 1 : at + 5] == [
        "  settings.replicas is 9, at most 3",
        "  settings.mode is [bold]x[/bold]",
        "  To do: correct spec.settings (user must act)",
        "  Next try in 42 s; now: windlass retry web -n shop --reason WHY",
    ]


def test_a_try_that_is_due_is_not_in_the_past() -> None:
    failure = {**FAILED["failure"], "nextTry": stamp(seconds=3)}
    assert any("Next try in 0 s" in line for line in told(application({**FAILED, "failure": failure})))


def test_facts_of_a_package_that_runs() -> None:
    facts = dict(
        line.split(maxsplit=1) for line in told(application(READY)) if line and line[0].isalpha() and " " in line
    )
    assert facts["Name"] == "web"
    assert facts["Namespace"] == "shop"
    assert facts["Package"] == "webapp 1.1.0 from repository demo"
    assert facts["Ready"] == "True  Reconciled"
    assert facts["Version"] == "1.1.0"
    assert facts["Content"] == DIGEST
    assert facts["Release"] == "shop.web in shop, revision 7"
    assert facts["Workflow"] == "http://ui/namespaces/default/workflows/x"
    assert "Failed" not in facts


def test_what_is_suspended_or_being_removed_says_so() -> None:
    one = application(READY, suspend=True)
    one.metadata.deletion_timestamp = "2026-01-01T00:04:00Z"
    lines = told(one)
    assert any(line.startswith("Suspended") for line in lines)
    assert any(line.startswith("Removed since") and "2026-01-01T00:04:00Z" in line for line in lines)


def test_a_package_that_nobody_looked_at_says_what_to_start() -> None:
    lines = told(application())
    assert lines[-1].startswith("No lifecycle has looked at it yet.")
    assert "windlass worker" in lines[-1]
    assert "Conditions" not in lines


def test_what_is_awaited_is_named() -> None:
    progress = {"completed": 1, "remaining": 2, "waitingFor": ["Deployment/web: 0 of 1 available", "Job/seed: runs"]}
    lines = told(application({**READY, "progress": progress}))
    at = next(number for number, line in enumerate(lines) if line.startswith("Progress"))
    assert lines[at].endswith("1 ready, 2 awaited")
    assert [line.strip() for line in lines[at + 1 : at + 3]] == progress["waitingFor"]


def test_sections_come_in_order_and_empty_ones_not_at_all() -> None:
    ref = ObjectRef(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")
    actions = [{"action": "pause", "who": "ann", "why": "[red]audit[/red]", "at": stamp(hours=1)}]
    objects = [(ref, "current"), (ref, "in progress: 1 of 2")]
    lines = told(application({**READY, "actions": actions}), event(1), objects=objects)
    titles = ["Conditions", "Objects of the release", "Actions", "Events"]
    assert [line for line in lines if line in titles] == titles
    shown = [line.split() for line in lines]
    assert ["Deployment/web", "current"] in shown
    assert ["Deployment/web", "in", "progress:", "1", "of", "2"] in shown
    assert ["2025-12-31", "23:05:00", "pause", "ann", "[red]audit[/red]"] in shown
    assert [line for line in told(application(READY)) if line in titles] == ["Conditions"]


def test_the_newest_events_are_shown_with_their_first_line() -> None:
    lines = told(application(READY), *(event(number, note=f"first {number}\nsecond") for number in range(SHOWN + 3)))
    shown = [line.split() for line in lines[lines.index("Events") + 1 :]]
    assert [one[1] for one in shown] == [f"R{number}" for number in range(3, SHOWN + 3)]
    assert shown[-1] == ["86s", "R14", "first", "14", "…"]


def test_events_of_older_recorders_have_no_event_time() -> None:
    old = event(1, eventTime=None, deprecatedLastTimestamp=stamp(seconds=7))
    assert told(application(READY), old)[-1].split() == ["7s", "R1", "n"]
    assert told(application(READY), event(1, eventTime=None))[-1].split() == ["R1", "n"]


def test_names_and_messages_are_text_and_never_markup() -> None:
    status = {**READY, "conditions": [condition("Ready", "False", "[b]Bad[/b]", "[/] [green]x[/green] :smile:")]}
    lines = "\n".join(told(application(status, name="[red]web"), event(1, note="[/x] [blink]")))
    assert lines.count("[/] [green]x[/green] :smile:") == 2
    assert lines.count("[b]Bad[/b]") == 2
    assert "[red]web" in lines
    assert "[/x] [blink]" in lines
    assert "[b]Bad[/b]" in listed(application(status))[1]


def test_a_description_in_80_columns_loses_nothing() -> None:
    message = "word-" * 40 + "end"
    status = {**READY, "conditions": [condition("Ready", "False", "Bad", message)]}
    lines = told(application(status), width=80)
    at = lines.index("Conditions")
    folded = "".join("".join(lines[at + 1 :]).split())
    assert folded == "ReadyFalseBad" + message


# -- failed upgrades and single steps --------------------------------------------------------------------------------

GOOD: Final = {
    "revision": 3,
    "version": "1.0.0",
    "repository": "demo",
    "digest": DIGEST,
    "settings": "s",
    "at": stamp(),
}


@pytest.mark.parametrize("width", [80, 160])
def test_a_rolled_back_package_says_what_is_kept_and_what_to_do(width: int) -> None:
    rejected = {
        "version": "1.1.0",
        "repository": "demo",
        "settings": "s",
        "step": "UpgradeRelease",
        "reason": "ReadinessTimeout",
        "message": "Deployment/web: 0 of 1",
        "at": stamp(seconds=20),
        "instead": GOOD,
    }
    lines = told(application({"phase": "RolledBack", "rejected": rejected, "revisions": [GOOD]}), width=width)
    at = lines.index("Rolled back  revision 3 (1.0.0) is kept, 1.1.0 is not tried")
    assert lines[at + 1].endswith("at UpgradeRelease: ReadinessTimeout")
    assert lines[at + 2 : at + 4] == [
        "  Deployment/web: 0 of 1",
        "  Change the object, or try it again: windlass retry web -n shop --reason WHY",
    ]
    assert "Good releases" in lines
    assert any(line.split()[-4:] == ["revision", "3", "1.0.0", "0123456789ab"] for line in lines)


@pytest.mark.parametrize(("cause", "actions"), [("Failed", ["retry", "rollback", "skip"]), ("Cancelled", ["resume"])])
def test_what_holds_names_the_actions_that_end_it(cause: str, actions: list[str]) -> None:
    held = {"step": "UpgradeRelease", "cause": cause, "message": "stopped by ada", "at": stamp()}
    status = {"phase": "Held", "held": held, "breakpoints": ["AfterHelm"]}
    lines = told(application(status))
    at = lines.index(f"Held  at UpgradeRelease: {cause}")
    assert lines[at + 1] == "  stopped by ada"
    assert [line.split()[2] for line in lines if line.startswith("  Now:")] == actions
    assert "Breakpoints  before AfterHelm" in lines


def test_what_failed_is_told_once() -> None:
    held = {"step": "ApplySettings", "cause": "Failed", "message": FAILED["failure"]["message"], "at": stamp()}
    text = "\n".join(told(application({**FAILED, "held": held})))
    assert text.count("settings.mode") == 1


def test_an_action_shows_what_it_is_about() -> None:
    action = {"action": "pause", "detail": "before UpgradeRelease", "who": "ada", "why": "to look", "at": stamp()}
    assert any("pause before UpgradeRelease" in line for line in told(application({"actions": [action]})))


def test_a_module_is_named_by_its_type_in_what_to_do() -> None:
    held = {"step": "UpgradeRelease", "cause": "Cancelled", "message": "stopped by ada", "at": stamp()}
    module = Module.model_validate(
        {
            "metadata": {"name": "ingress", "creationTimestamp": stamp(minutes=3)},
            "spec": {"package": {"repository": "demo", "name": "ingress", "version": "1.1.0"}},
            "status": {"phase": "Held", "held": held},
        }
    )
    assert "  Now: windlass resume module/ingress --reason WHY" in drawn(description(module, [], (), NOW), 160)
