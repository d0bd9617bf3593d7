"""Executable hooks behind `ports.Hooks`."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

import structlog
from structlog.typing import FilteringBoundLogger

from windlass.adapters.hooks.cancellation import to_the_end
from windlass.adapters.hooks.commands import discovery_command, run_command
from windlass.adapters.hooks.gate import Gates
from windlass.adapters.hooks.guard import Guard
from windlass.adapters.hooks.output import MAX_LOGGED, Budget, Capture, Lines
from windlass.adapters.hooks.outputs import collect_output, left_by_failure, read_verdict
from windlass.adapters.hooks.process import run_group
from windlass.adapters.hooks.runfiles import OutputError, create_enabled_files, create_run_files
from windlass.adapters.hooks.scratch import claimed_folder, remove_folder
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


class HookRunner:
    """Runs hooks as processes of this machine, each in its own session, folder and environment.

    Entered once by the composition root. What a hook prints is logged as it comes, so a hook must not print secrets;
    Windlass itself logs no values. Hooks run as the worker's user: a hook that writes outside its folders is held back
    by that user's rights only.

    Args:
        folder: where run files live; made for the owner only, swept of what dead workers left.
        environment: the worker's environment, of which hooks see PATH, LANG and TZ.
        concurrency: hook processes at a time; the others wait their turn, outside their time limit.
    """

    def __init__(self, folder: Path, *, environment: Mapping[str, str], concurrency: int = 16) -> None:
        self._root = folder
        self._environment = environment
        self._turns = asyncio.Semaphore(concurrency)
        self._numbers = itertools.count(1)
        self._resources = AsyncExitStack()
        self._folder = folder
        self._guard: Guard | None = None
        self._gates = Gates()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._folder = stack.enter_context(claimed_folder(self._root))
            self._guard = await stack.enter_async_context(Guard(self._folder))
            stack.push_async_callback(self._gates.close)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._resources.aclose()

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
        with _system_errors(reason, what):
            async with self._turns, self._run_folder() as folder:
                files = await create_run_files(folder, run)
                identity = {"WINDLASS_PACKAGE": run.package_id, "WINDLASS_NAMESPACE": run.namespace}
                command = run_command(
                    run.root,
                    run.hook.path,
                    home=files.home,
                    worker=self._environment,
                    variables={**files.variables, **identity},
                )
                ended = await run_group(
                    command,
                    gates=self._gates,
                    guard=self._running_guard(),
                    stdout=stdout,
                    stderr=stderr,
                    time_limit=run.hook.timeout,
                )
                if budget.exceeded:
                    log.warning("hook output cut", logged_bytes=MAX_LOGGED)
                if ended.left_behind:
                    log.warning("hook ended before processes it had started; they were ended")
                if ended.timed_out or ended.status:
                    how = f"timed out after {run.hook.timeout:g} s and was ended" if ended.timed_out else str(ended)
                    raise HookFailedError(
                        reason,
                        f"{what}: {how}{_quoted(stderr.tail or stdout.tail)}",
                        hint="correct the hook or what it depends on; it is tried again",
                        operations=await asyncio.to_thread(left_by_failure, files),
                    )
                try:
                    return await asyncio.to_thread(collect_output, files, duration=ended.duration)
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
        with _system_errors(reason, ENABLED_SCRIPT):
            async with self._turns, self._run_folder() as folder:
                files = await create_enabled_files(folder, run)
                identity = {"WINDLASS_PACKAGE": run.package_id, "WINDLASS_NAMESPACE": run.namespace}
                variables = {**files.variables, **identity}
                command = run_command(
                    run.root, ENABLED_SCRIPT, home=files.home, worker=self._environment, variables=variables
                )
                ended = await run_group(
                    command,
                    gates=self._gates,
                    guard=self._running_guard(),
                    stdout=stdout,
                    stderr=stderr,
                    time_limit=ENABLED_TIMEOUT,
                )
                if ended.timed_out or ended.status:
                    how = f"no answer within {ENABLED_TIMEOUT:g} s" if ended.timed_out else str(ended)
                    quoted = _quoted(stderr.tail or stdout.tail)
                    hint = "correct the script; it is asked again"
                    raise TransientError(reason, f"{ENABLED_SCRIPT}: {how}{quoted}", hint=hint)
                try:
                    return await asyncio.to_thread(read_verdict, files)
                except OutputError as error:
                    hint = "write true or false, and nothing else"
                    raise TransientError(reason, f"{ENABLED_SCRIPT}: {error}", hint=hint) from None

    async def _discover(self, root: Path, path: str) -> Hook:
        stdout = Capture(MAX_CONFIG)
        stderr = Lines(_line_logger(structlog.get_logger().bind(hook=path), "stderr"), Budget())
        what = f"{path} --config"
        with _system_errors(Reason.INIT_HOOKS_FAILED, what):
            async with self._turns, self._run_folder() as folder:
                await to_the_end(asyncio.to_thread(folder.mkdir, 0o700))
                command = discovery_command(root, path, home=folder, worker=self._environment)
                ended = await run_group(
                    command,
                    gates=self._gates,
                    guard=self._running_guard(),
                    stdout=stdout,
                    stderr=stderr,
                    time_limit=DISCOVERY_TIMEOUT,
                )
        if ended.timed_out:
            raise TransientError(
                Reason.INIT_HOOKS_FAILED,
                f"{what}: no answer within {DISCOVERY_TIMEOUT:g} s",
                hint="a hook must answer --config before it does anything else",
            )
        if ended.status:
            _refuse(f"{what}: {ended}{_quoted(stderr.tail)}", "call it with --config to see for yourself")
        if stdout.overflowed:
            _refuse(f"{what}: printed more than {MAX_CONFIG} bytes", "print the configuration only")
        try:
            text = stdout.content.decode()
        except UnicodeDecodeError as error:
            _refuse(f"{what}: not UTF-8 at byte {error.start}", "print JSON or YAML in UTF-8")
        return parse_config(path, text)

    @asynccontextmanager
    async def _run_folder(self) -> AsyncGenerator[Path]:
        folder = self._folder / f"run-{next(self._numbers)}"
        try:
            yield folder
        finally:
            await to_the_end(asyncio.to_thread(remove_folder, folder))

    def _running_guard(self) -> Guard:
        if self._guard is None:
            raise RuntimeError("HookRunner is used outside its async context")
        return self._guard


def _line_logger(log: FilteringBoundLogger, stream: str) -> Callable[[str], None]:
    return lambda line: log.info("hook output", stream=stream, line=line)


def _tokens(kubeconfig: str) -> tuple[str, ...]:
    """The one secret that Windlass itself hands to a hook; `set -x` or `cat $KUBECONFIG` would print it."""
    return tuple(_TOKEN.findall(kubeconfig))


@contextmanager
def _system_errors(reason: Reason, what: str) -> Generator[None]:
    """A full disk, too many processes or a folder that has gone are nobody's decision: they pass."""
    try:
        yield
    except OSError as error:
        raise TransientError(
            reason,
            f"{what}: cannot be run: {error.strerror or error}",
            hint="see that the worker's disk has room, that it may start processes, and that the package is in place",
        ) from error


def _refuse(message: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.INIT_HOOKS_FAILED, message, hint=hint, actor=Actor.AUTHOR)


def _quoted(tail: tuple[str, ...]) -> str:
    """The end of the last lines, which is where the cause stands."""
    text = "\n".join(tail).encode()[-_MAX_QUOTED:].decode(errors="ignore")
    return f", its last lines:\n{text}" if text else ""
