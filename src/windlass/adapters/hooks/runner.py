"""Executable hooks behind `ports.Hooks`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

import structlog
from structlog.typing import FilteringBoundLogger

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.adapters.hooks.commands import Command, discovery_command, run_command
from windlass.adapters.hooks.launch import LocalRunner, RemoteRunner
from windlass.adapters.hooks.link import Link, RunFailedError, Runner, RunnerLostError
from windlass.adapters.hooks.output import MAX_LOGGED, Budget, Capture, Lines, Sink
from windlass.adapters.hooks.outputs import collect_output, left_by_failure, read_verdict
from windlass.adapters.hooks.process import Ended, exceeded, run_process
from windlass.adapters.hooks.runfiles import OutputError, RunFiles, enabled_files, run_files
from windlass.adapters.hooks.turns import Turns
from windlass.adapters.runner.protocol import Config, Limits, ProtocolError
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.hooks.configuration import failure_reason, parse_config
from windlass.domain.packages.model import ENABLED_SCRIPT, Hook
from windlass.ports.hooks import EnabledRun, HookFailedError, HookOutput, HookRun, Verdict

DISCOVERY_TIMEOUT: Final = 10.0
"""Seconds a hook has to answer ``--config``."""

ENABLED_TIMEOUT: Final = 30.0
"""Seconds a module's ``enabled`` script has; it decides from values, and waits for nothing."""

MAX_CONFIG: Final = 256 * 1024
"""Bytes of an answer to ``--config``."""

_MAX_QUOTED: Final = 4 * 1024  # bytes of a hook's last lines in an error text, half of what an error may hold
_TOKEN: Final = re.compile(r"^\s*token:\s*['\"]?([^\s'\"]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class RunnerSettings:
    """How hooks are run.

    Attributes:
        runs: folder for the files of runs, for a runner of our own.
        packages: folders that hold packages; nothing else is run.
        readable: further files and folders that hooks may read and execute, beside the system's.
        writable: folders that hooks may write to, beside their own.
        limits: of each run.
        socket: where a runner in a container of its own listens; None starts one beside the worker.
        concurrency: hook processes at a time; the others wait their turn, outside their time limit.
        per_package: the same of one package, so that one whose hooks hang leaves room for the others.
    """

    runs: Path
    packages: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    socket: Path | None = None
    concurrency: int = 16
    per_package: int = 4

    @property
    def config(self) -> Config:
        """What a runner is started with."""
        return Config(
            runs=str(self.runs),
            packages=tuple(map(str, self.packages)),
            readable=tuple(map(str, self.readable)),
            writable=tuple(map(str, self.writable)),
            limits=self.limits,
        )


class HookRunner:
    """Runs hooks in a process that is not the worker, each in its own session, folder and environment.

    Entered once by the composition root. What a hook prints is logged as it comes, so a hook must not print secrets;
    Windlass itself logs no values.

    Args:
        settings: how hooks are run.
        environment: the worker's environment, of which hooks see PATH, LANG and TZ.
    """

    def __init__(self, settings: RunnerSettings, *, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._environment = environment
        self._turns = Turns(settings.concurrency, settings.per_package)
        self._link = Link(self._started)

    async def __aenter__(self) -> Self:
        if self._settings.socket is None:  # one of its own container may come later than we
            try:
                await self._link.connect()
            except (OSError, RunnerLostError, TimeoutError) as error:
                raise TransientError(
                    Reason.INTERNAL,
                    f"the process that runs hooks cannot be started: {error or 'it ended at once'}",
                    hint="its own words stand before this on stderr; it is tried again",
                ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_the_end(self._link.close())

    async def discover(self, root: Path, files: Sequence[str]) -> tuple[Hook, ...]:
        """Ask each file for its bindings; see `ports.Hooks`."""
        return tuple(await asyncio.gather(*(self._discover(root, path) for path in files)))

    async def run(self, run: HookRun) -> HookOutput:
        """Run one hook; see `ports.Hooks`."""
        log = structlog.get_logger().bind(package=run.package_id, hook=run.hook.path, binding=run.binding.value)
        budget, hidden = Budget(), _tokens(run.kubeconfig)
        stdout = Lines(_line_logger(log, "stdout"), budget, hidden)
        stderr = Lines(_line_logger(log, "stderr"), budget, hidden)
        what = f"{run.hook.path} ({run.binding.value})"
        reason = failure_reason(run.binding)
        identity = {"WINDLASS_PACKAGE": run.package_id, "WINDLASS_NAMESPACE": run.namespace}
        command = run_command(run.root, run.hook.path, worker=self._environment, variables=identity)
        async with self._running(reason, what, run.package_id):
            ended = await self._run(command, run.package_id, run_files(run), stdout, stderr, run.hook.timeout)
        _warn(log, budget, ended)
        if ended.failed:
            how = f"timed out after {run.hook.timeout:g} s and was ended" if ended.told.timed_out else str(ended)
            hint = "correct the hook or what it depends on; it is tried again"
            if ended.told.over:
                reason = Reason.HOOK_LIMIT_EXCEEDED
                how, hint = exceeded(ended.told.over, self._settings.limits)
            raise HookFailedError(
                reason,
                f"{what}: {how}{_quoted(stderr.tail or stdout.tail)}",
                hint=hint,
                operations=await asyncio.to_thread(left_by_failure, ended.outputs),
            )
        try:
            return await asyncio.to_thread(collect_output, ended.outputs, duration=ended.told.duration)
        except OutputError as error:
            hint = "nothing of what it wrote was applied"
            raise TransientError(reason, f"{what}: {error}", hint=hint) from None

    async def ask(self, run: EnabledRun) -> Verdict:
        """Ask a module's script whether it is enabled; see `ports.EnabledScripts`."""
        log = structlog.get_logger().bind(package=run.package_id, hook=ENABLED_SCRIPT)
        budget = Budget()
        stdout = Lines(_line_logger(log, "stdout"), budget)
        stderr = Lines(_line_logger(log, "stderr"), budget)
        reason = Reason.ENABLED_SCRIPT_ERROR
        identity = {"WINDLASS_PACKAGE": run.package_id, "WINDLASS_NAMESPACE": run.namespace}
        command = run_command(run.root, ENABLED_SCRIPT, worker=self._environment, variables=identity)
        async with self._running(reason, ENABLED_SCRIPT, run.package_id):
            ended = await self._run(command, run.package_id, enabled_files(run), stdout, stderr, ENABLED_TIMEOUT)
        _warn(log, budget, ended)
        if ended.failed:
            how = f"no answer within {ENABLED_TIMEOUT:g} s" if ended.told.timed_out else str(ended)
            hint = "correct the script; it is asked again"
            if ended.told.over:
                reason = Reason.HOOK_LIMIT_EXCEEDED
                how, hint = exceeded(ended.told.over, self._settings.limits)
            raise TransientError(reason, f"{ENABLED_SCRIPT}: {how}{_quoted(stderr.tail or stdout.tail)}", hint=hint)
        try:
            return await asyncio.to_thread(read_verdict, ended.outputs)
        except OutputError as error:
            hint = "write true or false, and nothing else"
            raise TransientError(reason, f"{ENABLED_SCRIPT}: {error}", hint=hint) from None

    async def _discover(self, root: Path, path: str) -> Hook:
        stdout = Capture(MAX_CONFIG)
        stderr = Lines(_line_logger(structlog.get_logger().bind(hook=path), "stderr"), Budget())
        what = f"{path} --config"
        command = discovery_command(root, path, worker=self._environment)
        async with self._running(Reason.INIT_HOOKS_FAILED, what, str(root)):
            ended = await self._run(command, str(root), RunFiles(), stdout, stderr, DISCOVERY_TIMEOUT)
        if ended.told.timed_out:
            raise TransientError(
                Reason.INIT_HOOKS_FAILED,
                f"{what}: no answer within {DISCOVERY_TIMEOUT:g} s",
                hint="a hook must answer --config before it does anything else",
            )
        if ended.told.over:
            how, hint = exceeded(ended.told.over, self._settings.limits)
            raise TransientError(Reason.HOOK_LIMIT_EXCEEDED, f"{what}: {how}{_quoted(stderr.tail)}", hint=hint)
        if ended.told.status:
            _refuse(f"{what}: {ended}{_quoted(stderr.tail)}", "call it with --config to see for yourself")
        if stdout.overflowed:
            _refuse(f"{what}: printed more than {MAX_CONFIG} bytes", "print the configuration only")
        try:
            text = stdout.content.decode()
        except UnicodeDecodeError as error:
            _refuse(f"{what}: not UTF-8 at byte {error.start}", "print JSON or YAML in UTF-8")
        return parse_config(path, text)

    async def _run(
        self, command: Command, package: str, files: RunFiles, stdout: Sink, stderr: Sink, time_limit: float
    ) -> Ended:
        return await run_process(
            command, package, files, link=self._link, stdout=stdout, stderr=stderr, time_limit=time_limit
        )

    @asynccontextmanager
    async def _running(self, reason: Reason, what: str, package: str) -> AsyncGenerator[None]:
        """Wait for a turn; what goes wrong around a run is nobody's decision: it passes."""
        hint = "see that the disk has room, that processes may be started, and that the package is in place"
        try:
            async with self._turns.taken(package):
                yield
        except RunnerLostError:
            raise TransientError(
                reason, f"{what}: the process that runs hooks was ended", hint="it is started again with the next try"
            ) from None
        except (RunFailedError, ProtocolError) as error:
            raise TransientError(reason, f"{what}: cannot be run: {error}", hint=hint) from None
        except OSError as error:
            raise TransientError(
                reason, f"{what}: cannot be run: {error.strerror or error or type(error).__name__}", hint=hint
            ) from error

    async def _started(self) -> Runner:
        if self._settings.socket is not None:
            return RemoteRunner(self._settings.socket)
        for folder in self._settings.packages:
            folder.mkdir(parents=True, exist_ok=True)
        return LocalRunner(self._settings.config)


def _warn(log: FilteringBoundLogger, budget: Budget, ended: Ended) -> None:
    if budget.exceeded:
        log.warning("hook output cut", logged_bytes=MAX_LOGGED)
    if ended.told.left_behind:
        log.warning("hook ended before processes it had started; they were ended")


def _line_logger(log: FilteringBoundLogger, stream: str) -> Callable[[str], None]:
    return lambda line: log.info("hook output", stream=stream, line=line)


def _tokens(kubeconfig: str) -> tuple[str, ...]:
    """The one secret that Windlass itself hands to a hook; `set -x` or `cat $KUBECONFIG` would print it."""
    return tuple(_TOKEN.findall(kubeconfig))


def _refuse(message: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.INIT_HOOKS_FAILED, message, hint=hint, actor=Actor.AUTHOR)


def _quoted(tail: tuple[str, ...]) -> str:
    """The end of the last lines, which is where the cause stands."""
    text = "\n".join(tail).encode()[-_MAX_QUOTED:].decode(errors="ignore")
    return f", its last lines:\n{text}" if text else ""
