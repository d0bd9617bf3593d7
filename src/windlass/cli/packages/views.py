"""Packages as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from windlass.cli.cluster import Object, condition, created, event_time
from windlass.cli.output import age, coloured, first_line, rows
from windlass.cli.target import named
from windlass.contracts.objects import PackageObject
from windlass.domain.lifecycle.effects import Phase
from windlass.domain.lifecycle.policy import Cause
from windlass.ports.kube import ObjectRef

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDE: Final = 140
"""Columns of a terminal that a list with all its columns needs."""

SHOWN: Final = 12
"""How many of the newest Events and actions a description shows."""

_ACTIONS_OF: Final = {
    Cause.FAILED: ("retry", "rollback", "skip"),
    Cause.WORKER_LOST: ("retry",),
    Cause.CANCELLED: ("resume",),
    Cause.BREAKPOINT: ("resume",),
}
_CURRENT: Final = "current"
_WAITING: Final = "WaitConverge"


def list_table(packages: Sequence[PackageObject], *, wide: bool, namespaces: bool) -> Table:
    """Return one line for each package."""
    head = ["NAME", "PACKAGE", "VERSION", "PHASE", "READY", "REASON", "AGE"]
    if namespaces:
        head.insert(0, "NAMESPACE")
    if wide:
        head += ["STEP", "REVISION", "DIGEST"]
    lines = [_line(one, wide=wide, namespaces=namespaces) for one in packages]
    return rows(head, lines, whole={"PHASE", "READY", "AGE", "REVISION", "DIGEST"})


def _line(package: PackageObject, *, wide: bool, namespaces: bool) -> list[str | Text]:
    status = package.status
    ready, reason, _ = condition(package, "Ready")
    line: list[str | Text] = [
        package.metadata.name,
        package.spec.package.name,
        version_text(package),
        (status.phase if status else None) or "Pending",
        coloured(ready),
        _reason(package, reason),
        age(created(package)),
    ]
    if namespaces:
        line.insert(0, package.metadata.namespace)
    if wide:
        revision = status.release.revision if status and status.release else None
        line += [
            (status.step if status else None) or "",
            str(revision or ""),
            ((status.digest if status else None) or "").removeprefix("sha256:")[:12],
        ]
    return line


def version_text(package: PackageObject) -> str:
    """Return the version that runs and, if another one is wanted or on its way, an arrow to what the object says."""
    running = (package.status.version if package.status else None) or ""
    wanted = package.spec.package.version
    upgrading = package.status is not None and package.status.phase == Phase.UPGRADING
    stands = running == wanted or (running and not upgrading and _answers(wanted, running))
    return running if stands else f"{running}→{wanted}"


def _answers(wanted: str, version: str) -> bool:
    """Say whether ``version`` is what is wanted: exactly, or admitted by the range."""
    from windlass.domain.packages.versions import VersionRangeError
    from windlass.domain.packages.wanted import Wanted, choose

    try:
        return choose(Wanted.parse(wanted), [version]) is not None
    except VersionRangeError:
        return False


def _reason(package: PackageObject, reason: str) -> str:
    progress = package.status.progress if package.status else None
    if progress is not None and progress.remaining:
        return f"{reason} ({progress.completed}/{progress.completed + progress.remaining} ready)"
    return reason


def description(
    package: PackageObject, events: Sequence[Object], objects: Sequence[tuple[ObjectRef, str]], now: datetime
) -> Group:
    """Return everything about one package.

    Args:
        package: the object.
        events: about it, oldest first.
        objects: of its newest release, each with its state.
        now: what ages and next tries are counted from.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [rows([], _facts(package))]
    if package.status is None:
        parts += ["", Text("No lifecycle has looked at it yet. Is a worker running? `windlass worker --role all`")]
        return Group(*parts)
    parts += _failure(package, now)
    parts += _control(package)
    sections = (
        ("Conditions", _conditions(package)),
        ("Objects of the release", [[f"{ref.kind}/{ref.name}", _state(state)] for ref, state in objects]),
        ("Good releases", _revisions(package)),
        ("Actions", _actions(package)),
        ("Events", [_event(one, now) for one in events[-SHOWN:]]),
    )
    for title, lines in sections:
        if lines:
            parts += ["", Text(title, "bold"), rows([], [["", *line] for line in lines])]
    return Group(*parts)


def _facts(package: PackageObject) -> list[list[str | Text]]:
    from rich.style import Style
    from rich.text import Text

    status, metadata, wanted = package.status, package.metadata, package.spec.package
    ready, reason, message = condition(package, "Ready")
    facts: list[tuple[str, str | Text]] = [
        ("Name", metadata.name),
        ("Namespace", package.home),
        ("Package", f"{wanted.name} {wanted.version} from repository {wanted.repository}"),
        ("Ready", coloured(ready).append(f"  {reason}" + (f": {first_line(message)}" if message else ""), "default")),
    ]
    if package.spec.suspend:
        facts.append(("Suspended", "spec.suspend is true"))
    if metadata.deletion_timestamp:
        facts.append(("Removed since", metadata.deletion_timestamp))
    if status is None:
        return [[name, text] for name, text in facts]
    facts += [
        ("Phase", f"{status.phase or '-'}, step {status.step or '-'}"),
        ("Version", status.version or "none yet"),
        ("Content", status.digest or "none yet"),
    ]
    if status.release:
        release = status.release
        facts.append(("Release", f"{release.name} in {release.namespace}, revision {release.revision}"))
    if status.progress:
        progress = status.progress
        facts.append(("Progress", f"{progress.completed} ready, {progress.remaining} awaited"))
        facts += [("", awaited) for awaited in progress.waiting_for]
    if status.workflow:
        link = status.workflow.link
        # A link of the terminal's own stays one when the text is folded.
        facts.append(("Workflow", Text(link, Style(link=link)) if link else status.workflow.id))
    return [[name, text] for name, text in facts]


def _failure(package: PackageObject, now: datetime) -> list[RenderableType]:
    from rich.text import Text

    failure = package.status.failure if package.status else None
    if failure is None:
        return []
    title = Text.assemble(("Failed", "bold red"), f"  {failure.step}: {failure.reason}, attempt {failure.attempt}")
    lines: list[RenderableType] = ["", title, *(Text(f"  {line}") for line in failure.message.splitlines())]
    if failure.hint:
        who = f" ({failure.actor.value} must act)" if failure.actor else ""
        lines.append(Text(f"  To do: {failure.hint}{who}"))
    if failure.next_try:
        seconds = max((failure.next_try - now).total_seconds(), 0)
        action = f"windlass retry {named(package)} --reason WHY"
        lines.append(Text(f"  Next try in {seconds:.0f} s; now: {action}"))
    return lines


def _control(package: PackageObject) -> list[RenderableType]:
    """Return what keeps the lifecycle from what the object asks for, and the actions that end it."""
    from rich.text import Text

    status = package.status
    if status is None:
        return []
    action = f"{named(package)} --reason WHY"
    lines: list[RenderableType] = []
    if held := status.held:
        lines += ["", Text.assemble(("Held", "bold yellow"), f"  at {held.step}: {held.reason or held.cause.value}")]
        if status.failure is None:  # what failed has been told
            lines += [Text(f"  {line}") for line in (held.message or "").splitlines()]
        words = _ACTIONS_OF[held.cause]
        lines += [Text(f"  Now: windlass {word} {action}") for word in words]
    if wish := status.rejected:
        kept = wish.instead
        at = f" at {wish.step}" if wish.step else ""
        lines += [
            "",
            Text.assemble(
                ("Rolled back", "bold yellow"),
                f"  revision {kept.revision} ({kept.version}) is kept, {wish.version} is not tried",
            ),
            Text(f"  Rejected {wish.at:%Y-%m-%d %H:%M:%S}{at}: {wish.reason}"),
            *(Text(f"  {line}") for line in wish.message.splitlines()),
            Text(f"  Change the object, or try it again: windlass retry {action}"),
        ]
    if status.breakpoints:
        lines += ["", Text.assemble(("Breakpoints", "bold"), f"  before {', '.join(status.breakpoints)}")]
    return lines


def _revisions(package: PackageObject) -> list[list[str | Text]]:
    good = (package.status.revisions if package.status else None) or []
    return [
        [
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            f"revision {one.revision}",
            one.version,
            one.digest.removeprefix("sha256:")[:12],
        ]
        for one in reversed(good)
    ]


def _conditions(package: PackageObject) -> list[list[str | Text]]:
    conditions = (package.status.conditions if package.status else None) or []
    return [[one.type, _status(one.type, one.status), one.reason, first_line(one.message)] for one in conditions]


def _status(type_: str, status: str) -> Text:
    """Return a condition's status; waiting is the one thing that is good when it is over."""
    text = coloured(status)
    text.style = "green" if type_ == _WAITING and status == "False" else text.style
    return text


def _state(state: str) -> Text:
    from rich.text import Text

    return Text(state, "green" if state == _CURRENT else "red" if state.startswith("failed") else "yellow")


def _actions(package: PackageObject) -> list[list[str | Text]]:
    actions = (package.status.actions if package.status else None) or []
    return [[f"{one.at:%Y-%m-%d %H:%M:%S}", one.text, one.who, one.why] for one in actions[-SHOWN:]]


def _event(event: Object, now: datetime) -> list[str | Text]:
    from rich.text import Text

    stamp = event_time(event)
    at = datetime.fromisoformat(stamp) if stamp else None
    reason = Text(str(event.get("reason")), "yellow" if event.get("type") == "Warning" else "green")
    return [age(at, now), reason, first_line(str(event.get("note") or ""))]
