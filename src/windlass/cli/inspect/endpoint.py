"""Asks the workers' inspect endpoint, for commands that show what only workers can read.

A worker is asked at its own address if it can be reached there, else through the API server's proxy. A token is sent
only over a connection to a worker whose certificate has been checked. Through the proxy, and for users without a token
(client certificates), a ticket says who asks; see docs/adr/0024.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from windlass.adapters.inspection import directory
from windlass.adapters.inspection.authority import trusting
from windlass.adapters.inspection.client import InspectClient
from windlass.adapters.inspection.directory import Directory
from windlass.adapters.inspection.wire import TooManyRequestsError, error_of, is_worker_status
from windlass.cli.actions.asking import who_asks
from windlass.contracts.actions import INSPECT, parse_request
from windlass.contracts.inspection import TICKET_HEADER, Question, View, path_of
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import API_VERSION, SYSTEM_NAMESPACE, Kind, PackageKey, inspect_name
from windlass.domain.text.documents import DocumentError, parse_answer
from windlass.observers.inspection.tickets import proof_of

if TYPE_CHECKING:
    from windlass.adapters.kube.transport import Answer
    from windlass.cli.cluster import Cluster

PATIENCE: Final = 10.0
"""Seconds for which a question is repeated that no worker can answer now: workers start, and shards move."""

PROBE_SECONDS: Final = 2.0
"""How long workers may take to answer at their own addresses before the API server's proxy is used."""

AGAIN: Final = 0.5
TICKET_SECONDS: Final = 40.0
"""For how long a ticket is used again. Workers take it for a minute, by the API server's clock."""

_SECRET_BYTES: Final = 32


@dataclass(frozen=True)
class _Worker:
    """A worker that answers at its own address."""

    member: str
    address: str
    client: InspectClient


class Endpoint:
    """The endpoint of one installation, for one command.

    Args:
        place: where the command works.
        stack: closes connections.
    """

    def __init__(self, place: Cluster, stack: AsyncExitStack) -> None:
        self._place = place
        self._stack = stack
        self._worker: _Worker | None = None
        self._proxied = False
        self._tickets: dict[tuple[PackageKey, bool], tuple[str, float]] = {}

    async def key(self, name: str) -> PackageKey:
        """Return which package ``name`` is.

        Raises:
            PermanentError: PACKAGE_NOT_FOUND, there is none, unless the caller may not read packages: whoever may
                inspect one need not be allowed to.
        """
        try:
            await self._place.package(name)
        except PermanentError as error:
            if error.reason is not Reason.FORBIDDEN:
                raise
        return self._place.key(name)

    async def ask(self, key: PackageKey, view: View, question: Question | None = None) -> Any:
        """Return one view of a package.

        Raises:
            WindlassError: as the worker answers, or no worker can be reached.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return await self._once(key, view, question or Question())
            except TransientError as error:
                if error.reason is not Reason.API_UNAVAILABLE or time.monotonic() >= until:
                    raise
                if not isinstance(error, TooManyRequestsError):
                    self._worker, self._proxied = None, False  # it may have moved
                await asyncio.sleep(AGAIN)

    async def reached(self) -> str:
        """Return how workers are reached, in words.

        Raises:
            WindlassError: they are not.
        """
        await self._find()
        if self._worker is not None:
            return f"{self._worker.member} at {self._worker.address}"
        # Anything that a worker answers will do: this is no package, and there are no credentials.
        nobody = path_of(PackageKey(kind=Kind.MODULE, name="-"), View.QUEUES)
        answer = await self._place.kube.service_proxy(SYSTEM_NAMESPACE, self._service, nobody, b"", {})
        if not is_worker_status(answer.body):
            raise self._failure(answer)
        return "through the API server's proxy"

    async def _once(self, key: PackageKey, view: View, question: Question) -> Any:
        if self._worker is None and not self._proxied:
            await self._find()
        worker, path = self._worker, path_of(key, view)
        token = await self._place.kube.bearer() if worker is not None else ""
        if token:
            headers = {"Authorization": f"Bearer {token}"}
        else:
            headers = {TICKET_HEADER: await self._ticket(key, hypothetical=question.hypothetical)}
        if worker is not None:
            body = (await worker.client.ask(worker.address, worker.member, path, question, headers)).body
        else:
            answer = await self._place.kube.service_proxy(
                SYSTEM_NAMESPACE, self._service, path, question.model_dump_json().encode(), headers
            )
            if answer.status >= 300:
                raise self._failure(answer)
            body = answer.body
        try:
            return parse_answer(body)
        except DocumentError as error:
            raise PermanentError(
                Reason.DOCUMENT_REJECTED, f"the worker's answer cannot be read: {error.message}", actor=Actor.ADMIN
            ) from None

    def _failure(self, answer: Answer) -> WindlassError:
        """Return the failure of a request through the proxy: the worker's, or that the worker was not reached."""
        found = error_of(answer.status, answer.body)
        if is_worker_status(answer.body):
            return found
        return TransientError(
            Reason.API_UNAVAILABLE,
            f"no worker of installation {self._place.context.installation} can be reached, neither at its own address "
            f"nor through the API server: {found.message}",
            hint="start one: `windlass worker --role all`; in a cluster look at Service and pods in windlass-system",
        )

    @property
    def _service(self) -> str:
        return f"https:{inspect_name(self._place.context.installation)}:inspect"

    async def _find(self) -> None:
        """Find a worker that answers; without one the proxy is used."""
        installation = self._place.context.installation
        found = await directory.read(self._place.kube, SYSTEM_NAMESPACE, installation)
        if found is None or not found.addresses:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"no worker of installation {installation} answers questions about packages",
                hint="start one: `windlass worker --role all`",
            )
        self._worker = await self._first(found)
        self._proxied = self._worker is None

    async def _first(self, found: Directory) -> _Worker | None:
        """Return the worker that answers first at its own address."""
        client = await self._stack.enter_async_context(InspectClient(trusting(found.authority_pem)))

        async def probe(member: str, address: str) -> _Worker:
            await client.ready(address, member)
            return _Worker(member, address, client)

        probes = [asyncio.create_task(probe(*one)) for one in found.addresses.items()]
        try:
            for next_one in asyncio.as_completed(probes, timeout=PROBE_SECONDS):
                try:
                    return await next_one
                except WindlassError:
                    continue
        except TimeoutError:
            pass
        finally:
            for one in probes:
                one.cancel()
            await asyncio.gather(*probes, return_exceptions=True)
        return None

    async def _ticket(self, key: PackageKey, *, hypothetical: bool) -> str:
        """Return a ticket for a package; create an ActionRequest for it unless there is one that is still good."""
        ticket, until = self._tickets.get((key, hypothetical), ("", 0.0))
        if time.monotonic() < until:
            return ticket
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        spec: dict[str, Any] = {
            "target": {"kind": key.kind.value, "name": key.name},
            "action": INSPECT,
            "detail": proof_of(secret, hypothetical=hypothetical),
        }
        if who := await who_asks(self._place):
            spec["who"] = who
        metadata = {"generateName": f"{INSPECT}-", "namespace": key.home}
        body = {"apiVersion": API_VERSION, "kind": "ActionRequest", "metadata": metadata, "spec": spec}
        try:
            made = parse_request(await self._place.kube.create(body))
        except PermanentError as error:
            if error.reason is not Reason.FORBIDDEN:
                raise
            raise PermanentError(
                Reason.FORBIDDEN,
                error.message,
                hint=f"needed: `create` on actionrequests.windlass.dev in namespace {key.home}, and `get` on "
                f"{key.kind.value.lower()}s/inspect.windlass.dev; the ClusterRole windlass-operate has both",
                actor=Actor.ADMIN,
            ) from error
        ticket = f"{made.metadata.name}/{secret}"
        self._tickets[key, hypothetical] = (ticket, time.monotonic() + TICKET_SECONDS)
        return ticket


@asynccontextmanager
async def inspecting(place: Cluster) -> AsyncGenerator[Endpoint]:
    """Yield the inspect endpoint of a command's installation; nothing is asked yet."""
    async with AsyncExitStack() as stack:
        yield Endpoint(place, stack)
