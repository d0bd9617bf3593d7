"""``windlass worker`` and ``windlass watcher``: the processes of an installation."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from windlass.cli.context import Context


class Role(StrEnum):
    """What a process does."""

    WORKER = "worker"
    WORKFLOWS = "workflows"
    HELM = "helm"
    HOOKS = "hooks"
    WATCHER = "watcher"
    ALL = "all"


class LogFormat(StrEnum):
    """How log lines look."""

    CONSOLE = "console"
    JSON = "json"


DataDir = Annotated[
    Path | None, typer.Option(help="Data directory of the stack: where its servers, keyring and programs are found.")
]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder of this process alone: package cache, scratch files, lock; default: one in the data directory."
    ),
]
Form = Annotated[LogFormat, typer.Option("--log-format", help="For people or for machines.")]
Level = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def worker(
    role: Annotated[
        Role, typer.Option(help="What this process does; all is everything that the installation needs.")
    ] = Role.WORKER,
    data_dir: DataDir = None,
    work_dir: WorkDir = None,
    log_format: Form = LogFormat.CONSOLE,
    log_level: Level = "info",
) -> None:
    """Run package lifecycles: workflows, Helm operations and hooks. Stops in order on Ctrl-C and SIGTERM.

    Role hooks only runs hooks, for the worker that connects to WINDLASS_HOOKS_SOCKET: it needs neither keyring, cluster
    nor Temporal.
    """
    _run(role, data_dir, work_dir, log_format, log_level)


def watcher(
    data_dir: DataDir = None,
    work_dir: WorkDir = None,
    log_format: Form = LogFormat.CONSOLE,
    log_level: Level = "info",
) -> None:
    """Watch the cluster and signal the lifecycles. Several may run: one holds the Lease, the others wait."""
    _run(Role.WATCHER, data_dir, work_dir, log_format, log_level)


def _run(role: Role, data_dir: Path | None, work_dir: Path | None, log_format: LogFormat, log_level: str) -> NoReturn:
    from windlass.cli.context import HOOK_READABLE, HOOK_WRITABLE, Context

    context = Context.find(data_dir)
    if role is Role.HOOKS:
        _become_runner(context)

    import uvloop

    from windlass import logs
    from windlass.adapters.targets.kubeconfig import Allowed
    from windlass.contracts.lifecycle import Limits
    from windlass.worker.main import Keys, run
    from windlass.worker.rates import Rates
    from windlass.worker.settings import WORKFLOW_CACHE, Settings

    logs.configure(log_format.value, log_level)
    pool = role is Role.HELM
    parts = {
        Role.WORKER: {"worker"},
        Role.WORKFLOWS: {"worker"},
        Role.ALL: {"worker", "watcher", *context.pools},
    }.get(role, {role.value})
    settings = Settings(
        installation=context.installation,
        shards=context.shards,
        kubeconfig=context.worker_kubeconfig,
        watcher_kubeconfig=context.watcher_kubeconfig,
        data_dir=work_dir.absolute() if work_dir else context.data_dir / (role.value if pool else "worker"),
        helm=context.helm,
        ui=context.ui,
        limits=Limits(events=context.continue_after_events),
        pools=context.pools,
        # Where others do the work there is still what was begun before.
        helm_children=1 if role is Role.WORKFLOWS else Settings.helm_children,
        hooks_socket=context.hooks_socket,
        hook_limits=context.hook_limits,
        hook_readable=context.hook_paths(HOOK_READABLE),
        hook_writable=context.hook_paths(HOOK_WRITABLE),
        workflow_cache=context.number("WINDLASS_WORKFLOW_CACHE", WORKFLOW_CACHE),
        rates=Rates.parse(context.environ.get("WINDLASS_API_RATES", "")),
        metrics_address=context.metrics_address,
        packages=context.package_limits,
        fetch=context.fetch_limits,
        accept_plain_payloads=context.accept_plain_payloads,
        default_accounts=context.switch("WINDLASS_DEFAULT_ACCOUNTS", default=True),
        # The clusters of an embedded stack are on this machine.
        kubeconfigs=Allowed.parse(context.environ.get("WINDLASS_KUBECONFIGS", "local" if context.stack else "")),
        keep_requests=timedelta(hours=context.number("WINDLASS_KEEP_REQUESTS_HOURS", 168)),
    )
    keys = Keys(payloads=context.keyring, digests=context.digest_key)
    code = uvloop.run(run(settings, context.temporal, keys, parts))
    sys.stdout.flush()
    sys.stderr.flush()
    # Native threads of the Temporal and Helm libraries may abort the interpreter while it is torn down, which would
    # turn a good exit into SIGABRT: everything of ours is closed by now, so leave without that.
    os._exit(code)


def _become_runner(context: Context) -> NoReturn:
    """Leave this program for that of the runner, which holds nothing of the environment."""
    from windlass.adapters.hooks.launch import command
    from windlass.adapters.runner.protocol import Config
    from windlass.cli.context import HOOK_READABLE, HOOK_WRITABLE, HOOKS_SOCKET
    from windlass.domain.errors import Actor, PermanentError, Reason

    if context.hooks_socket is None:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{HOOKS_SOCKET} is not set",
            hint="set it, here and for the worker, to a path that both can reach",
            actor=Actor.ADMIN,
        )
    config = Config(
        runs=str(context.data_dir / "hooks"),
        packages=(str(context.data_dir / "worker" / "packages"),),
        readable=tuple(map(str, context.hook_paths(HOOK_READABLE))),
        writable=tuple(map(str, context.hook_paths(HOOK_WRITABLE))),
        limits=context.hook_limits,
        socket=str(context.hooks_socket),
    )
    arguments = command(config)
    os.execve(arguments[0], arguments, {})  # noqa: S606 - the program is our own
