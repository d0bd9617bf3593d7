"""Applications as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from windlass.cli.cluster import Object, condition, created
from windlass.cli.output import age, coloured, rows
from windlass.contracts.objects import Application

if TYPE_CHECKING:
    from rich.table import Table

EVENTS_SHOWN = 12


def list_table(applications: Sequence[Application], *, wide: bool, namespaces: bool) -> Table:
    """Return one line for each Application."""
    head = ["NAME", "PACKAGE", "VERSION", "PHASE", "READY", "REASON", "AGE"]
    if namespaces:
        head.insert(0, "NAMESPACE")
    if wide:
        head += ["STEP", "REVISION", "DIGEST"]
    return rows(head, [_line(one, wide=wide, namespaces=namespaces) for one in applications])


def _line(application: Application, *, wide: bool, namespaces: bool) -> list[str]:
    status = application.status
    ready, reason, _ = condition(application, "Ready")
    wanted = application.spec.package.version
    version = (status.version if status else None) or ""
    line = [
        application.metadata.name,
        application.spec.package.name,
        version if version == wanted or not version else f"{version} → {wanted}",
        (status.phase if status else None) or "Pending",
        coloured(ready),
        escape(_reason(application, reason)),
        age(created(application)),
    ]
    if namespaces:
        line.insert(0, application.metadata.namespace)
    if wide:
        revision = status.release.revision if status and status.release else None
        line += [
            escape((status.step if status else None) or ""),
            str(revision or ""),
            ((status.digest if status else None) or "")[7:19],
        ]
    return line


def _reason(application: Application, reason: str) -> str:
    progress = application.status.progress if application.status else None
    if progress is not None and progress.remaining:
        return f"{reason} ({progress.completed}/{progress.completed + progress.remaining} ready)"
    return reason


def description(application: Application, events: Sequence[Object]) -> str:
    """Return everything about one Application as rich markup."""
    status = application.status
    metadata, package = application.metadata, application.spec.package
    ready, reason, message = condition(application, "Ready")
    lines = [
        _field("Name", f"{metadata.name}  (namespace {metadata.namespace})"),
        _field("Package", f"{package.repository}/{package.name}, wanted version {package.version}"),
        _field("Ready", f"{coloured(ready)} {escape(reason)}" + (f": {escape(message)}" if message else "")),
    ]
    if status is None:
        return "\n".join([*lines, "", "No lifecycle has looked at it yet: is a watcher running? (`windlass watcher`)"])
    lines += [
        _field("Phase", f"{status.phase or ''}, step {escape(status.step or '')}"),
        _field("Version", f"{status.version or '(none)'}  {escape(status.digest or '')}"),
    ]
    if status.release:
        release = status.release
        lines.append(_field("Release", f"{release.name} in {release.namespace}, revision {release.revision}"))
    if status.progress:
        awaited = "; ".join(status.progress.waiting_for)
        text = f"{status.progress.completed} ready, {status.progress.remaining} awaited: {awaited}"
        lines.append(_field("Progress", escape(text)))
    if status.workflow:
        lines.append(_field("Workflow", escape(status.workflow.link or status.workflow.id)))
    if application.spec.suspend:
        lines.append(_field("Suspended", "spec.suspend is true"))
    lines += _failure_lines(application)
    lines += ["", "[bold]Conditions[/bold]"]
    for one in status.conditions or []:
        text = f"  {one.type:<18} {coloured(one.status):<24} {escape(one.reason)}"
        lines.append(text + (f"  {escape(_first_line(one.message))}" if one.message else ""))
    if status.orders:
        lines += ["", "[bold]Orders[/bold]"]
        lines += [
            f"  {one.at:%Y-%m-%d %H:%M:%S}  {one.order:<8} {escape(one.who)}  {escape(one.why)}"
            for one in status.orders[-EVENTS_SHOWN:]
        ]
    if events:
        lines += ["", "[bold]Events[/bold]"]
        lines += [_event(one) for one in events[-EVENTS_SHOWN:]]
    return "\n".join(lines)


def _failure_lines(application: Application) -> list[str]:
    failure = application.status.failure if application.status else None
    if failure is None:
        return []
    lines = [
        "",
        f"[bold red]Failed[/bold red]  {escape(failure.step)}: {escape(failure.reason)}, attempt {failure.attempt}",
        *(f"  {escape(line)}" for line in failure.message.splitlines()),
    ]
    if failure.hint:
        lines.append(f"  To do: {escape(failure.hint)}" + (f" (by: {failure.actor})" if failure.actor else ""))
    if failure.next_try:
        lines.append(
            f"  Next try at {failure.next_try:%H:%M:%S} UTC, or now: windlass retry {application.metadata.name}"
        )
    return lines


def _event(event: Object) -> str:
    at = datetime.fromisoformat(str(event.get("eventTime")))
    colour = "yellow" if event.get("type") == "Warning" else "green"
    note = escape(_first_line(str(event.get("note") or "")))
    return f"  {at:%H:%M:%S}  [{colour}]{event.get('reason')}[/{colour}]  {note}"


def _field(name: str, text: str) -> str:
    return f"[bold]{name:<10}[/bold] {text}"


def _first_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} …" if more else first
