"""Starts, finds and stops an embedded stack: the API for tests, the demo and the command line."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from windlass.devstack import clusters, credentials, nats, paths, ports, supervisor
from windlass.devstack.clusters import Cluster
from windlass.devstack.credentials import Credentials
from windlass.devstack.errors import StackError
from windlass.devstack.plan import PORTS, Plan
from windlass.devstack.process import started_ticks, tail
from windlass.devstack.programs.build import Report, ensure_tools
from windlass.devstack.programs.catalog import TOOLS, Tool
from windlass.devstack.programs.locate import Found
from windlass.devstack.state import PartPhase, PartState, Phase, StackState, is_running
from windlass.temporal.codec_token import token_at
from windlass.temporal.digest_key import DigestKey
from windlass.temporal.keyring import Keyring

START_TIMEOUT: Final = 120.0
"""Seconds until a start is given up. Warm on two idle cores it takes about six."""

STOP_TIMEOUT: Final = 30.0
"""Seconds until a stop is given up; the supervisor kills what does not end within three."""

_LOG_LIMIT: Final = 16 * 1024 * 1024  # bytes; a longer log is put aside at the next start
_TICK: Final = 0.05
_FOLLOW_TICK: Final = 0.25


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What may differ from one stack to the next.

    Attributes:
        kubeconfig: a cluster that takes the place of the embedded one.
        temporal_address: host:port of a Temporal that takes the place of the embedded one; empty for none.
        crds: folder of CustomResourceDefinitions to install; the installed Windlass's own when None.
        registry: whether an OCI registry without login runs beside the rest.
        nats: whether a NATS server with JetStream, login and TLS runs beside the rest.
        clusters: how many clusters there are beside the management cluster, see `windlass.devstack.clusters`.
        own_etcd: numbers (from 1) of those that have an etcd process of their own and can be emptied.
        clusters_namespace: namespace of the Secrets with their kubeconfigs.
        on_demand: whether each of these clusters waits until `Cluster.start`, so that one that nobody uses costs
            nothing.
    """

    kubeconfig: Path | None = None
    temporal_address: str = ""
    crds: Path | None = None
    registry: bool = False
    nats: bool = False
    clusters: int = 0
    own_etcd: tuple[int, ...] = ()
    clusters_namespace: str = "default"
    on_demand: bool = False

    @property
    def tools(self) -> list[Tool]:
        """The programs such a stack needs: those of its parts, and kubectl and helm for people and tests."""
        left_out: set[str] = set()
        if self.kubeconfig is not None:
            left_out |= {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
        if self.temporal_address:
            left_out.add("temporal")
        if not self.registry:
            left_out.add("registry")
        if not self.nats:
            left_out.add("nats-server")
        return [tool for tool in TOOLS.values() if tool.name not in left_out]


class Stack:
    """A running stack, started by this process (`start`) or by another one (`attach`)."""

    def __init__(self, data_dir: Path, process: subprocess.Popen[bytes] | None = None) -> None:
        self.data_dir = data_dir
        self._process = process

    @classmethod
    def start(
        cls,
        data_dir: Path | None = None,
        *,
        options: StackOptions | None = None,
        detach: bool = False,
        report: Report = lambda _text: None,
    ) -> Self:
        """Start a stack and return once everything is ready.

        Args:
            data_dir: folder of the stack; `windlass.devstack.paths.data_dir` when None.
            options: what is not as usual.
            detach: let it run on when this process ends. Otherwise it stops then, also after kill -9.
            report: gets one line of progress at a time.

        Raises:
            StackError: programs are missing and cannot be built, a stack runs there already, or a part does
                not come up; the text holds the end of that part's log.
        """
        options = options or StackOptions()
        data_dir = paths.data_dir(data_dir)
        if sys.platform != "linux":
            message = f"the embedded stack needs Linux, this is {sys.platform}"
            raise StackError(message, hint="bring your own: --kubeconfig and --temporal-address")
        if options.clusters and options.kubeconfig is not None:
            message = "more clusters need the embedded management cluster, and a kubeconfig takes its place"
            raise StackError(message, hint="leave out the kubeconfig, or put Secrets with kubeconfigs there yourself")
        if is_running(data_dir):
            message = f"a stack runs in {data_dir} already"
            raise StackError(message, hint="use it, or stop it: windlass down")
        tools = ensure_tools(options.tools, report, os.environ)
        with ports.Claims(paths.ports_file()) as claims:
            plan = _plan(data_dir, options, tools, claims, detached=detach)
            with plan.log("supervisor").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", supervisor.__name__, str(plan.save())],
                    stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=(claims.fileno(),),  # the supervisor holds them for as long as it runs
                    start_new_session=True,  # Ctrl-C in a terminal is for the process in front, which stops us in order
                )
            stack = cls(data_dir, process)
            try:
                stack._await_ready(plan, report)
            except BaseException:  # Ctrl-C while it starts as well: a stack that nobody holds must not run on
                stack.stop()
                raise
        return stack

    @classmethod
    def attach(cls, data_dir: Path | None = None) -> Self:
        """Return the stack that runs in ``data_dir``.

        Raises:
            StackError: none runs there.
        """
        data_dir = paths.data_dir(data_dir)
        if not is_running(data_dir):
            message = f"no stack runs in {data_dir}"
            raise StackError(message, hint="start one: windlass up")
        return cls(data_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def state(self) -> StackState:
        """What the supervisor last wrote.

        Raises:
            StackError: nothing was ever started in the data directory.
        """
        state = StackState.load(self.data_dir)
        if state is None:
            message = f"no stack was ever started in {self.data_dir}"
            raise StackError(message, hint="start one: windlass up")
        return state

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator of the cluster."""
        return Path(self.state.kubeconfig)

    @property
    def worker_kubeconfig(self) -> Path:
        """Kubeconfig of the account `windlass-worker`; that of the cluster in use when it is somebody else's."""
        return self._account_kubeconfig(credentials.WORKER)

    @property
    def watcher_kubeconfig(self) -> Path:
        """Kubeconfig of the account `windlass-watcher`; that of the cluster in use when it is somebody else's."""
        return self._account_kubeconfig(credentials.WATCHER)

    def _account_kubeconfig(self, user: str) -> Path:
        if not self.state.apiserver_url:
            return self.kubeconfig
        return Credentials(self.data_dir / "pki").kubeconfig(user)

    @property
    def clusters(self) -> list[Cluster]:
        """The clusters beside the management cluster."""
        return [Cluster(self.data_dir, name) for name in self.state.clusters]

    def cluster(self, number: int) -> Cluster:
        """Return a cluster beside the management cluster; the first one has the number 1.

        Raises:
            StackError: there is none of that number.
        """
        found = self.clusters
        if not 1 <= number <= len(found):
            message = f"the stack in {self.data_dir} has {len(found)} clusters beside the management cluster"
            raise StackError(message, hint=f"start it with more: windlass up --clusters {number}")
        return found[number - 1]

    @property
    def temporal_address(self) -> str:
        """host:port of Temporal's frontend; the namespace is `default`."""
        return self.state.temporal_address

    @property
    def ui_url(self) -> str:
        """URL of the Temporal UI; empty when Temporal is somebody else's."""
        return self.state.ui_url

    @property
    def pids(self) -> dict[str, int]:
        """Pid of each part that runs, by name, and of the `supervisor`."""
        state = self.state
        running = {name: part.pid for name, part in state.parts.items() if part.pid}
        return {"supervisor": state.supervisor, **running}

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that point usual clients at this stack."""
        state = self.state
        servers = {"KUBECONFIG": state.kubeconfig, "TEMPORAL_ADDRESS": state.temporal_address}
        return servers | (nats.environment(self.data_dir, state.nats_url) if state.nats_url else {})

    @property
    def worker_env(self) -> dict[str, str]:
        """Environment variables that point a process of Windlass at this stack, as its own accounts."""
        accounts = {"KUBECONFIG": self.worker_kubeconfig, "WINDLASS_WATCHER_KUBECONFIG": self.watcher_kubeconfig}
        return self.env | {name: str(path) for name, path in accounts.items()}

    def tool(self, name: str) -> Path:
        """Path of a program the stack uses, such as `kubectl` or `helm`.

        Raises:
            KeyError: there is no such program.
        """
        return Path(self.state.tools[name])

    @property
    def is_running(self) -> bool:
        """Whether the supervisor lives."""
        return is_running(self.data_dir)

    def stop(self) -> None:
        """Stop the stack and return once nothing of it runs; harmless when it is stopped already.

        Raises:
            StackError: it does not stop.
        """
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        state = StackState.load(self.data_dir)
        if self.is_running and state is not None and started_ticks(state.supervisor) == state.supervisor_ticks:
            os.kill(state.supervisor, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT
        while self.is_running:
            if time.monotonic() > deadline:
                message = f"the supervisor of {self.data_dir} did not stop within {STOP_TIMEOUT:.0f} s"
                raise StackError(message, hint=f"see {self.data_dir / 'logs' / 'supervisor.log'}")
            # The lock says when it is over, and a lock held by another process cannot be waited for with a limit.
            time.sleep(_TICK)
        if self._process is not None:
            self._process.wait()

    def follow(self, report: Report) -> None:
        """Report every change of a part until the stack ends.

        Args:
            report: gets one line for a change, and more with the end of a log when a part died.

        Raises:
            StackError: the supervisor ended without having been asked to.
        """
        seen = {name: part.phase for name, part in self.state.parts.items()}
        while self.is_running:
            state = self.state
            died = [name for name, part in state.parts.items() if _fell_ill(part, seen.get(name))]
            _report_changes(state, seen, report)
            for name in died:
                report(state.parts[name].last_error)
            # The state file is the interface to the supervisor; files cannot be waited for portably.
            time.sleep(_FOLLOW_TICK)
        if self.state.phase is not Phase.STOPPED:
            message = f"the supervisor of {self.data_dir} ended; nothing of the stack is left running"
            raise StackError(message, hint=f"see {self.data_dir / 'logs' / 'supervisor.log'}, then windlass up")

    def _await_ready(self, plan: Plan, report: Report) -> None:
        seen: dict[str, PartPhase] = {}
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            state = StackState.load(self.data_dir)
            if state is not None and state.run_id == plan.run_id:
                _report_changes(state, seen, report)
                if state.phase is Phase.READY:
                    return
                if state.phase is not Phase.STARTING:
                    raise StackError(state.error or "the stack was stopped while it started")
                alive = self.is_running
            else:
                alive = self._process is not None and self._process.poll() in {None, 0}
            if not alive:
                self._raise_dead(plan)
            # The state file is the interface to the supervisor; files cannot be waited for portably.
            time.sleep(_TICK)
        waiting = ", ".join(name for name, phase in seen.items() if phase not in {PartPhase.READY, PartPhase.DONE})
        message = f"not ready within {START_TIMEOUT:.0f} s: {waiting}"
        raise StackError(message, hint=f"see the logs in {plan.folder / 'logs'}")

    def _raise_dead(self, plan: Plan) -> None:
        code = None if self._process is None else self._process.poll()
        if code == supervisor.ALREADY_RUNNING:
            message = f"a stack runs in {self.data_dir} already"
            raise StackError(message, hint="use it, or stop it: windlass down")
        lines = "\n".join(tail(plan.log("supervisor"), 10))
        message = f"the supervisor of {self.data_dir} ended while it started the stack:\n{lines}"
        raise StackError(message)


def _plan(
    data_dir: Path, options: StackOptions, tools: dict[str, Found], claims: ports.Claims, *, detached: bool
) -> Plan:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs = data_dir / "logs"
    logs.mkdir(exist_ok=True)
    for log in logs.glob("*.log"):
        if log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))
    names = clusters.names(options.clusters)
    own_etcd = [names[number - 1] for number in options.own_etcd]
    plan = Plan(
        run_id=secrets.token_hex(8),
        data_dir=str(data_dir),
        tools={name: str(found.path) for name, found in tools.items()},
        versions={"windlass": version("windlass"), **{name: found.version for name, found in tools.items()}},
        ports=ports.assign(data_dir / "ports.json", [*PORTS, *clusters.ports(names, own_etcd)], free=claims.take),
        search_attributes=_search_attributes(),
        external_kubeconfig="" if options.kubeconfig is None else str(options.kubeconfig.absolute()),
        external_temporal=options.temporal_address,
        crds=str(options.crds or paths.crds_dir()),
        detached=detached,
        clusters=names,
        own_etcd=own_etcd,
        clusters_namespace=options.clusters_namespace,
        on_demand=options.on_demand,
    )
    Keyring.load_or_create(plan.keyring)
    DigestKey.load_or_create(plan.digest_key)
    token_at(plan.codec_token_file)
    if options.kubeconfig is None or options.nats:
        credentials.ensure(data_dir / "pki")
    if options.nats:
        nats.write_config(plan)
    if options.kubeconfig is None:
        pki = Credentials(data_dir / "pki")
        credentials.write_kubeconfigs(pki, plan.apiserver_url, plan.kubeconfig)
        clusters.write(plan)
    return plan


def _search_attributes() -> dict[str, str]:
    # Half a second of imports that only a process which starts a stack has to pay.
    from windlass.temporal.search_attributes import as_flags  # noqa: PLC0415

    return as_flags()


def _fell_ill(part: PartState, before: PartPhase | None) -> bool:
    return part.phase is not before and part.phase in {PartPhase.RESTARTING, PartPhase.UNHEALTHY}


def _report_changes(state: StackState, seen: dict[str, PartPhase], report: Report) -> None:
    elapsed = time.time() - state.started_at
    for name, part in state.parts.items():
        if seen.get(name, PartPhase.WAITING) is not part.phase:
            report(f"{elapsed:5.1f} s  {name} {part.phase}")
        seen[name] = part.phase
