"""The inspect endpoint of this worker: its certificate, its address, and the other workers'."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from temporalio.client import Client

from windlass.adapters.inspection import authority, directory
from windlass.adapters.inspection.authority import Certificate
from windlass.adapters.inspection.callers import Callers
from windlass.adapters.inspection.client import InspectClient, UnreachableError
from windlass.adapters.inspection.server import InspectServer, Reply
from windlass.adapters.kube.coordination.leases import API_VERSION as LEASES
from windlass.adapters.kube.coordination.members import Members
from windlass.adapters.kube.coordination.shard_table import ShardTable
from windlass.contracts.inspection import CALLER_HEADER, Question, View, path_of
from windlass.domain.backoff import delay
from windlass.domain.errors import Actor, Category, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import INSTALLATION_LABEL, MEMBER_LABEL, PackageKey, inspect_name, member_of, shard_of
from windlass.observers.inspection.answers import Answers
from windlass.observers.inspection.service import Inspection
from windlass.observers.inspection.surroundings import Surroundings
from windlass.observers.inspection.tickets import Tickets
from windlass.ports.kube import Kube
from windlass.runtime.packages import PackageLifecycles
from windlass.worker.adapters import Adapters
from windlass.worker.settings import Settings

TEND_SECONDS: Final = 60.0
"""Seconds between two looks whether certificate and directory are as they should be."""

DIRECTORY_SECONDS: Final = 5.0
"""For how long the addresses of other workers are believed."""

_PORT_MAX: Final = 65_535
_ANY: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what others cannot connect to

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class TableOwners:
    """`Owners` by the table of shards and the Leases of the workers."""

    mine: str
    table: ShardTable
    members: Members

    def of(self, key: PackageKey) -> str:
        """See `Owners`."""
        table = self.table.current
        owner = table.owners.get(shard_of(key, table.count), "") if table else ""
        return owner if owner == self.mine or owner in self.members.alive() else ""


class MemberPeers:
    """`Peers` by the directory. Connections present this worker's certificate.

    Args:
        kube: reads the directory.
        namespace: of the directory.
        installation: the installation id.
    """

    def __init__(self, kube: Kube, namespace: str, installation: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._installation = installation
        self._client: InspectClient | None = None
        self._known: dict[str, str] = {}
        self._until = 0.0

    async def use(self, certificate: Certificate | None) -> None:
        """Present this certificate from now on; None closes all connections."""
        before, self._client = self._client, None
        if certificate is not None:
            self._client = await InspectClient(certificate.asking()).__aenter__()
        if before is not None:
            await before.__aexit__(None, None, None)

    async def ask(self, member: str, key: PackageKey, view: View, question: Question, caller: str) -> Reply:
        """See `Peers`."""
        if time.monotonic() >= self._until or member not in self._known:
            found = await directory.read(self._kube, self._namespace, self._installation)
            self._known = dict(found.addresses) if found else {}
            self._until = time.monotonic() + DIRECTORY_SECONDS
        address = self._known.get(member)
        if address is None or self._client is None:
            raise TransientError(
                Reason.API_UNAVAILABLE,
                f"the worker that serves {key.package_id} has not published its inspect endpoint",
                hint="ask again in a few seconds; look at that worker's log",
            )
        try:
            # Header values are latin-1; names of users are anything.
            who = caller.encode("ascii", "backslashreplace").decode().replace("\r", "").replace("\n", "")
            return await self._client.ask(address, member, path_of(key, view), question, {CALLER_HEADER: who})
        except UnreachableError:
            self._until = 0.0
            raise


class InspectEndpoint:
    """Serves until cancelled. A failure of it is logged and tried again, and ends nothing else.

    Args:
        settings: of the process.
        client: connected to Temporal.
        adapters: of the process.
        owners: who serves which shard.
    """

    def __init__(self, settings: Settings, client: Client, adapters: Adapters, owners: TableOwners) -> None:
        kube = adapters.inspection
        around = Surroundings(
            installation=settings.installation,
            kube=kube,
            references=adapters.references,
            targets=adapters.targets,
            helm=adapters.helm,
            renderer=adapters.renderer,
            contents=adapters.contents,
            packages=adapters.packages,
            client=client,
            lifecycles=PackageLifecycles(client, installation=settings.installation),
        )
        self._settings = settings
        self._kube = kube
        self._member = member_of(owners.mine)
        self._peers = MemberPeers(kube, settings.namespace, settings.installation)
        inspection = Inspection(
            answers=Answers(around),
            callers=Callers(kube),
            tickets=Tickets(kube),
            owners=owners,
            peers=self._peers,
        )
        self._host, port = address_of(settings.inspect_address)
        self._server = InspectServer(
            inspection, installation=settings.installation, member=self._member, host=self._host, port=port
        )
        self._certificate: Certificate | None = None

    async def run(self) -> None:
        """Serve, and keep certificate and directory as they should be."""
        failures = 0
        try:
            while True:
                try:
                    await self._settle()
                    failures = 0
                except WindlassError as error:
                    failures += 1
                    _log.warning("inspect endpoint", reason=error.reason.value, error=str(error), failures=failures)
                except Exception:  # noqa: BLE001 - no failure of the endpoint ends the worker
                    failures += 1
                    _log.error("inspect endpoint", failures=failures, exc_info=True)
                again = delay(Category.TRANSIENT, failures, chance=0.5) if failures else TEND_SECONDS
                await asyncio.sleep(again)
        finally:
            await self._end()

    async def _settle(self) -> None:
        settings, now = self._settings, datetime.now(UTC)
        found = await authority.ensured(self._kube, settings.namespace, settings.installation, now)
        if self._certificate is None or self._certificate.stale(found, now):
            service = f"{inspect_name(settings.installation)}.{settings.namespace}.svc"
            made = found.certificate(self._member, (service,), now)
            await self._server.serve(made)
            await self._peers.use(made)
            self._certificate = made
            _log.info("inspect endpoint served", address=self._address)
        labels = {INSTALLATION_LABEL: settings.installation, MEMBER_LABEL: "worker"}
        leases = await self._kube.list(
            LEASES,
            "Lease",
            namespace=settings.namespace,
            label_selector=",".join(f"{name}={value}" for name, value in labels.items()),
            metadata_only=True,
        )
        alive = {item["metadata"]["name"] for item in leases.items}
        await directory.publish(
            self._kube,
            settings.namespace,
            settings.installation,
            found.certificate_pem,
            self._member,
            self._address,
            alive,
        )

    @property
    def _address(self) -> str:
        host = self._settings.inspect_host or (socket.gethostname() if self._host in _ANY else self._host)
        return f"[{host}]:{self._server.port}" if ":" in host else f"{host}:{self._server.port}"

    async def _end(self) -> None:
        await self._server.close()
        await self._peers.use(None)
        try:
            async with asyncio.timeout(2.0):
                await directory.withdraw(
                    self._kube, self._settings.namespace, self._settings.installation, self._member
                )
        except (WindlassError, TimeoutError) as error:  # others drop it when the Lease is gone
            _log.info("inspect endpoint not withdrawn", error=str(error))


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``.

    Raises:
        PermanentError: VALIDATION_FAILED, it is none.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _PORT_MAX:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"WINDLASS_INSPECT_ADDRESS is {text!r}",
            hint="write HOST:PORT, such as 0.0.0.0:9443",
            actor=Actor.ADMIN,
        )
    return host.strip("[]"), int(port)
