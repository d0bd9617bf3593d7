"""`ports.Jq` over a pool of warm children."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from windlass.adapters.jq.turns import Turns
from windlass.adapters.processes.warm import ChildDiedError, WarmChildren
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.text.documents import ANSWER, DocumentError, parse_json
from windlass.ports.jq import FILTER_SECONDS, Jq

_MODULE: Final = "windlass.adapters.jq.child"

MAX_RESULT: Final = 16 * 1024 * 1024
"""Bytes that all results of one run may have as JSON."""

CHECK_SECONDS: Final = 5.0
"""How long compiling a filter may take."""

_TYPE: Final = "(?:null|boolean|number|string|array|object)"
_QUOTABLE: Final = re.compile(
    rf"Cannot (?:index|iterate over|use|check whether) {_TYPE}(?: (?:with|as|has an?) {_TYPE})?|{_TYPE}(?= \()"
)
"""The parts of jq's messages that are made of words of the language only; the rest may quote the value."""


class JqClient:
    """Runs filters in at most ``size`` children; a filter that loops occupies one for its time limit only.

    Packages take turns and have a budget each (`windlass.adapters.jq.turns`); what is asked of the client itself, and
    not `on_behalf_of` a package, is on one account together.

    Enter it on the event loop that uses it. A child takes 60 ms to start and holds about 12 MB.
    """

    def __init__(self, *, size: int = 2) -> None:
        # A time zone database and locale are all that jq would look up in an environment: it gets none.
        self._turns = Turns(size)
        self._children = WarmChildren(_MODULE, size=size, environment={}, reply_limit=MAX_RESULT)

    async def __aenter__(self) -> Self:
        await self._children.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._children.__aexit__(kind, error, trace)

    @property
    def busy(self) -> tuple[int, ...]:
        """Process ids of the children that run a filter now."""
        return self._children.busy

    def on_behalf_of(self, package: str) -> Jq:
        """Return the filters of one package; see `ports.SharedJq`."""
        return _Filters(self.ask, package)

    async def check(self, program: str) -> None:
        """Compile a filter; see `ports.Jq`."""
        await self.ask("", program, "", CHECK_SECONDS)

    async def run(self, program: str, value: Any, *, timeout: float = FILTER_SECONDS) -> list[Any]:  # noqa: ASYNC109 - see the port
        """Run a filter; see `ports.Jq`."""
        return await self.ask("", program, json.dumps(value), timeout)

    async def ask(self, package: str, program: str, value: str, seconds: float) -> list[Any]:
        """Run a filter on a value, JSON text, or only compile it when that is empty.

        Args:
            package: who pays.
            program: the filter.
            value: what ``.`` is.
            seconds: that it may take.

        Raises:
            PermanentError: as `ports.Jq.run`.
            TransientError: as `ports.Jq.run`.
        """
        request = f"{json.dumps(program)}\n{value}\n".encode()
        try:
            async with self._turns.taken(package):
                answer = await self._children.ask(request, seconds=seconds)
            reply = parse_json(answer, ANSWER)
        except TimeoutError:
            raise TransientError(
                Reason.FILTER_FAILED,
                f"jq filter {_named(program)}: did not end within {seconds:g} s and was killed",
                hint="look for a loop in the filter; it is tried again",
            ) from None
        except ChildDiedError:
            # What it wrote last may quote the value.
            raise TransientError(
                Reason.FILTER_FAILED,
                f"jq filter {_named(program)}: its process died",
                hint="it may have run out of memory; it is tried again with a new process",
            ) from None
        except ValueError:
            _refuse(program, f"its results have more than {MAX_RESULT} bytes", "let the filter give less")
        except DocumentError as error:
            _refuse(program, f"its results cannot be read: {error.problem}", "let the filter give less")
        if "invalid" in reply:
            _refuse(program, f"not valid: {_first_line(reply['invalid'])}", "try it with the jq program")
        if "failed" in reply:
            _refuse(program, f"fails on the value{_quotable(reply['failed'])}", "try it with the jq program")
        if "excess" in reply:
            _refuse(program, reply["excess"], "collect results in an array, or let the filter give fewer")
        return reply["results"]


class _Filters:
    """`ports.Jq` on the account of one package."""

    def __init__(self, ask: Callable[[str, str, str, float], Awaitable[list[Any]]], package: str) -> None:
        self._ask = ask
        self._package = package

    async def check(self, program: str) -> None:
        await self._ask(self._package, program, "", CHECK_SECONDS)

    async def run(self, program: str, value: Any, *, timeout: float = FILTER_SECONDS) -> list[Any]:  # noqa: ASYNC109 - see the port
        return await self._ask(self._package, program, json.dumps(value), timeout)


def _refuse(program: str, problem: str, hint: str) -> NoReturn:
    raise PermanentError(Reason.FILTER_FAILED, f"jq filter {_named(program)}: {problem}", hint=hint, actor=Actor.AUTHOR)


def _named(program: str) -> str:
    line = " ".join(program.split())
    return f"'{line}'" if len(line) <= 120 else f"'{line[:119]}…'"


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removeprefix("jq: error: ").strip().rstrip(":")[:500]


def _quotable(text: str) -> str:
    found = _QUOTABLE.match(text)
    return f": {found.group()}" if found else ""
