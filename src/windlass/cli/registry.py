"""Every command of `windlass`: where it is, what it does, and how it is loaded without the others."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

_PLUGIN: Final = "kubectl-windlass"
"""Name under which kubectl finds this program as its subcommand."""

GROUPS: Final[dict[str, dict[str, tuple[str, str, str]]]] = {
    # title: {command: (module, attribute, what it does)}
    "Stack": {
        "up": ("stack.commands", "up", "Start Temporal and a Kubernetes control plane on this machine"),
        "down": ("stack.commands", "down", "Stop them"),
        "status": ("stack.commands", "status", "Show their parts, addresses and health"),
        "logs": ("stack.commands", "logs", "Show the log of one part"),
        "doctor": ("stack.commands", "doctor", "Say what is there, what is missing, and what to do"),
        "demo": ("demo.command", "demo", "Watch packages live a whole life on the stack"),
    },
    "Packages": {
        "apply": ("packages.commands", "apply", "Create or change packages and repositories from files"),
        "get": ("packages.commands", "get", "List packages"),
        "describe": ("packages.commands", "describe", "Tell everything about one package"),
        "watch": ("packages.commands", "watch", "Follow one package live"),
        "tree": ("inspect.commands", "tree", "Show the objects of one package as a tree"),
        "events": ("inspect.commands", "events", "Show the Events of one package and of its objects"),
        "history": ("inspect.commands", "history", "Tell what happened to one package, by whom and why"),
        "values": ("packages.commands", "values", "Show the merged values of one package"),
        "render": ("inspect.render", "render", "Show the manifests that would be applied now"),
        "diff": ("inspect.diff", "diff", "Show what would be changed now"),
        "delete": ("packages.commands", "delete", "Remove a package and wait until it is gone"),
        "package": ("packages.authoring", "app", "Check, pack, push and find packages"),
    },
    "Lifecycles": {
        "retry": ("actions.commands", "retry", "Try the failed step again now"),
        "skip": ("actions.commands", "skip", "Pass over the failed step"),
        "cancel": ("actions.commands", "cancel", "Stop the running step and hold there"),
        "rollback": ("actions.commands", "rollback", "Go back to a good version with its settings"),
        "pause": ("actions.commands", "pause", "Begin no further step, or hold before some"),
        "resume": ("actions.commands", "resume", "Go on after a pause, a cancellation, a breakpoint"),
        "dump": ("actions.commands", "dump", "Show the carried state and the queue of one or all packages"),
    },
    "Service sets": {
        "plan": ("plan.commands", "app", "Show the route of a chain or the plan of a rollout (chain, fleet)"),
        "import": ("importing.commands", "app", "Convert manifests of other tools (kcm)"),
    },
    "Processes": {
        "worker": ("run", "worker", "Run package lifecycles"),
        "watcher": ("run", "watcher", "Watch the cluster and signal the lifecycles"),
        "codec": ("codec", "app", "Let the Temporal UI read encrypted payloads (serve)"),
    },
    "Operators": {
        "operator": ("operator", "app", "Begin an operator of your own"),
    },
    "": {
        "completion": ("completion", "completion", "Teach your shell the commands and the names of packages"),
        "version": ("version", "version", "Show the versions of Windlass and of what it uses"),
    },
}

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def help_text() -> str:
    """Return what `windlass --help` prints."""
    width = max(len(name) for name in COMMANDS) + 2
    name = program()
    lines = [f"Usage: {name} [--debug] COMMAND [OPTIONS]", "", "Packages on Kubernetes as durable workflows.", ""]
    for title, group in GROUPS.items():
        if title:
            lines.append(f"{title}:")
        lines += [f"  {name:<{width}}{entry[2]}" for name, entry in group.items()]
        lines.append("")
    lines += [
        f"`{name} COMMAND --help` tells a command's options and shows examples.",
        "--debug adds the trace to an error.",
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
    ]
    return "\n".join(lines)


def program() -> str:
    """Return how people call this program: `windlass`, or `kubectl windlass`."""
    return _PLUGIN.replace("-", " ") if os.path.basename(sys.argv[0]) == _PLUGIN else "windlass"  # noqa: PTH119 - pathlib takes 20 ms to load


def load(name: str) -> Any:
    """Import one command; return it as a click command, its examples at the end of its help."""
    import typer

    from windlass.cli.examples import epilog

    module, attribute, _ = COMMANDS[name]
    command: Any = getattr(importlib.import_module(f"windlass.cli.{module}"), attribute)
    # Plain help, as `windlass --help` is: boxes cost a tenth of a second and half of a narrow terminal.
    if isinstance(command, typer.Typer):
        command.pretty_exceptions_enable = False
        command.rich_markup_mode = None
        for one in command.registered_commands:
            sub = one.name or (one.callback.__name__ if one.callback else "")
            one.epilog = epilog(f"{name} {sub}")
        return typer.main.get_command(command)
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    application.command(name, epilog=epilog(name))(command)
    return typer.main.get_command(application)
