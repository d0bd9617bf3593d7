"""``windlass up``, ``down``, ``status``, ``logs`` and ``doctor``: the embedded stack."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from windlass.cli.output import console, rows

if TYPE_CHECKING:
    from types import FrameType

    from rich.table import Table
    from rich.text import Text

    from windlass.devstack.doctor import Finding, Level
    from windlass.devstack.stack import Stack

DataDir = Annotated[
    Path | None, typer.Option(help="Data directory of the stack; default WINDLASS_DATA, else below ~/.local/share.")
]


class Extra(StrEnum):
    """Parts of a stack that are there on request."""

    REGISTRY = "registry"
    NATS = "nats"


class Form(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Form, typer.Option("--output", "-o", help="For people or for programs.")]

MAX_CLUSTERS: Final = 16
"""Of 300 MB each; who wants more does not want them on one machine."""

_FOLLOW_EVERY: Final = 0.2  # seconds between two looks at a growing log


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when all is ready; stop with `down`.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Your cluster instead of the embedded one.")
    ] = None,
    temporal_address: Annotated[str, typer.Option(help="Your Temporal (host:port) instead of the embedded one.")] = "",
    extras: Annotated[
        list[Extra] | None, typer.Option("--with", help="A part that is not always there; may be repeated.")
    ] = None,
    clusters: Annotated[int, typer.Option(min=0, max=MAX_CLUSTERS, help="Clusters beside the management cluster.")] = 0,
    clusters_namespace: Annotated[
        str, typer.Option(help="Namespace of the Secrets with the kubeconfigs of these clusters.")
    ] = "default",
    data_dir: DataDir = None,
) -> None:
    """Start Temporal and a Kubernetes control plane on this machine; Ctrl-C stops them again.

    Everything binds to the loopback address and keeps its data in one directory: the next start goes on from there.
    Programs that are missing are built first, once; `windlass doctor` tells which. With `--clusters N` there are N more
    control planes, each with its kubeconfig in a Secret (cluster-1, cluster-2, ...; key `kubeconfig`).
    """
    from windlass.devstack.stack import Stack, StackOptions

    signal.signal(signal.SIGTERM, _interrupt)
    options = StackOptions(
        kubeconfig=kubeconfig,
        temporal_address=temporal_address,
        registry=Extra.REGISTRY in (extras or ()),
        nats=Extra.NATS in (extras or ()),
        clusters=clusters,
        clusters_namespace=clusters_namespace,
    )
    stack = Stack.start(data_dir, options=options, detach=detach, report=typer.echo)
    typer.echo(_summary(stack))
    if detach:
        return
    try:
        # Being told to stop is how this command ends well.
        with contextlib.suppress(KeyboardInterrupt):
            typer.echo("\nCtrl-C stops the stack; its data stays.")
            stack.follow(typer.echo)
    finally:
        stack.stop()
        typer.echo("stopped")


def down(data_dir: DataDir = None) -> None:
    """Stop the stack; its data stays. Harmless when none runs."""
    from windlass.devstack import paths
    from windlass.devstack.stack import Stack
    from windlass.devstack.state import is_running

    folder = paths.data_dir(data_dir)
    if is_running(folder):
        Stack.attach(folder).stop()
        typer.echo(f"stopped the stack in {folder}")
    else:
        typer.echo(f"no stack runs in {folder}")


def status(data_dir: DataDir = None, output: Output = Form.TABLE) -> None:
    """Show parts, addresses and health. Exit code 0 only if everything is ready."""
    from windlass.devstack import paths
    from windlass.devstack.stack import Stack
    from windlass.devstack.state import PartPhase, is_running

    folder = paths.data_dir(data_dir)
    stack = Stack(folder)
    state = stack.state
    running = is_running(folder)
    phase = state.phase.value if running else "stopped"
    parts: list[dict[str, Any]] = [
        {
            "part": name,
            "state": part.phase.value if running else "stopped",
            "pid": part.pid if running else 0,
            "address": part.address,
            "version": part.version,
            "uptime": round(time.time() - part.started_at) if running and part.pid else 0,
            "restarts": part.restarts,
            "cause": part.cause,
        }
        for name, part in state.parts.items()
        if part.phase is not PartPhase.DONE
    ]
    document = {
        "state": phase,
        "dataDir": str(folder),
        "supervisor": state.supervisor if running else 0,
        "kubeconfig": state.kubeconfig,
        "clusters": state.clusters,
        "temporal": state.temporal_address,
        "ui": state.ui_url,
        "nats": state.nats_url,
        "parts": parts,
    }
    if output is not Form.TABLE:
        _print_document(document, output)
    else:
        console().print(parts_table(parts))
        typer.echo(f"\n{_summary(stack)}" if running else f"\nstopped; data in {folder}; start: windlass up")
        for name, part in state.parts.items():
            if running and part.last_error:
                typer.echo(f"\nlast failure of {name}:\n{part.last_error}")
    healthy = running and phase == "ready" and all(part["state"] == PartPhase.READY for part in parts)
    if not healthy:
        raise typer.Exit(1)


def logs(
    part: Annotated[str, typer.Argument(help="A part as `windlass status` lists them, or `supervisor`.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 200,
    data_dir: DataDir = None,
) -> None:
    """Show the log of one part."""
    from windlass.devstack import paths
    from windlass.devstack.errors import StackError
    from windlass.devstack.process import tail

    folder = paths.data_dir(data_dir) / "logs"
    log = folder / f"{part}.log"
    known = sorted(file.stem for file in folder.glob("*.log"))
    if part not in known:
        message = f"there is no log of {part!r} in {folder}"
        raise StackError(message, hint=f"there are: {', '.join(known)}" if known else "start a stack: windlass up")
    with log.open(errors="replace") as file:
        file.seek(0, os.SEEK_END)
        for line in tail(log, lines, limit=lines * 4096):
            typer.echo(line)
        while follow:
            if text := file.read():
                typer.echo(text, nl=False)
            else:
                # A plain file cannot be waited for portably.
                time.sleep(_FOLLOW_EVERY)


def doctor(data_dir: DataDir = None, output: Output = Form.TABLE) -> None:
    """Say what is there, what is missing, what will be built and for how long, and what to do."""
    import asyncio
    import dataclasses

    from windlass.cli.context import Context
    from windlass.devstack import paths
    from windlass.devstack.doctor import Level, examine

    findings = examine(paths.data_dir(data_dir), os.environ)
    context = Context.find(data_dir)
    if context.brings_servers:
        from windlass.cli.stack.reachable import examine as examine_servers

        findings += asyncio.run(examine_servers(context))
    if output is not Form.TABLE:
        _print_document([dataclasses.asdict(finding) for finding in findings], output)
    else:
        console().print(findings_table(findings))
    problems = [finding.subject for finding in findings if finding.level is Level.PROBLEM]
    if output is Form.TABLE:
        good = "all good" if context.brings_servers else "all good: windlass up"
        typer.echo(f"\nto be solved: {', '.join(problems)}" if problems else f"\n{good}")
    if problems:
        raise typer.Exit(1)


def _summary(stack: Stack) -> str:
    state = stack.state
    lines = [
        f"stack       {state.phase} ({state.ready_after:.1f} s to start), data in {stack.data_dir}",
        f"Kubernetes  {state.apiserver_url or 'yours'}",
        f"Temporal    {state.temporal_address}, namespace default",
    ]
    if state.ui_url:
        lines.append(f"UI          {state.ui_url}")
    if state.nats_url:
        lines.append(f"NATS        {state.nats_url}, login and authority: export the variables below")
    lines += [f"{name:<11} {kubeconfig}" for name, kubeconfig in state.clusters.items()]
    lines += ["", *(f"export {name}={value}" for name, value in stack.env.items())]
    return "\n".join(lines)


def _print_document(document: Any, form: Form) -> None:
    if form is Form.JSON:
        import json

        typer.echo(json.dumps(document, indent=2))
    else:
        import yaml

        typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def parts_table(parts: list[dict[str, Any]]) -> Table:
    """Return one line for each part; restarts only if there were any, for then they matter."""
    from rich.text import Text

    restarted = any(part["restarts"] for part in parts)
    head = ["PART", "STATE", "PID", "ADDRESS", "VERSION", "UPTIME"]
    lines = [
        [
            part["part"],
            Text(part["state"], "green" if part["state"] == "ready" else "yellow"),
            str(part["pid"] or ""),
            part["address"],
            part["version"],
            _duration(part["uptime"]),
            *([str(part["restarts"] or "")] if restarted else []),
        ]
        for part in parts
    ]
    return rows([*head, "RESTARTS"] if restarted else head, lines, whole={"PART", "STATE", "PID", "VERSION", "UPTIME"})


def findings_table(findings: list[Finding]) -> Table:
    """Return one line for each finding, with what to do below it."""
    lines: list[list[str | Text]] = []
    for finding in findings:
        lines.append([_level(finding.level), finding.subject, finding.found])
        if finding.advice:
            lines.append(["", "", f"-> {finding.advice}"])
    return rows([], lines)


def _level(level: Level) -> Text:
    from rich.text import Text

    return Text(level.value, {"ok": "green", "problem": "bold red"}.get(level.value, "yellow"))


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
