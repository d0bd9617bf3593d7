"""Repository catalogs as their users see them."""

from __future__ import annotations

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from windlass.contracts.catalog import REPOSITORY_CHANGED, CatalogInput, RepositoryChanged, RepositoryKey
from windlass.contracts.lifecycle import Limits
from windlass.domain.errors import Reason, TransientError
from windlass.domain.ids import repository_workflow_id, shard_of_repository, task_queue
from windlass.runtime.packages import RPC_TIMEOUT, TASK_TIMEOUT
from windlass.temporal import search_attributes
from windlass.workflows.repository import RepositoryCatalogWorkflow


class RepositoryCatalogs:
    """The repository catalogs of one installation; arguments as of `PackageLifecycles`."""

    def __init__(self, client: Client, *, installation: str, shards: int = 1, limits: Limits | None = None) -> None:
        self._client = client
        self._installation = installation
        self._shards = shards
        self._limits = limits or Limits()

    async def changed(self, name: str) -> None:
        """Have a repository scanned now; start its catalog if there is none.

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not take the signal now.
        """
        await self._start(name, signal=True)

    async def ensure(self, name: str) -> None:
        """Start the catalog of a repository if none runs; it begins with a scan.

        Raises:
            TransientError: as `changed`.
        """
        await self._start(name, signal=False)

    async def running(self) -> set[str]:
        """Return the names of the repositories whose catalogs run (as visibility has them).

        Raises:
            TransientError: API_UNAVAILABLE, Temporal does not answer.
        """
        query = (
            f"WorkflowType = 'RepositoryCatalog' AND ExecutionStatus = 'Running' "
            f"AND {search_attributes.INSTALLATION.name} = '{self._installation}'"
        )
        prefix = repository_workflow_id(self._installation, "")
        try:
            found = [one.id async for one in self._client.list_workflows(query, rpc_timeout=RPC_TIMEOUT)]
        except RPCError as error:
            raise _unavailable("all repositories", error) from error
        return {id_.removeprefix(prefix) for id_ in found if id_.startswith(prefix)}

    async def gone(self, name: str) -> None:
        """Tell a catalog that its object is gone; nothing if none runs.

        Raises:
            TransientError: as `changed`.
        """
        handle = self._client.get_workflow_handle(repository_workflow_id(self._installation, name))
        try:
            await handle.signal(REPOSITORY_CHANGED, RepositoryChanged(), rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise _unavailable(name, error) from error

    async def _start(self, name: str, *, signal: bool) -> None:
        attributes = TypedSearchAttributes(
            [
                SearchAttributePair(search_attributes.INSTALLATION, self._installation),
                SearchAttributePair(search_attributes.KIND, "PackageRepository"),
            ]
        )
        try:
            await self._client.start_workflow(
                RepositoryCatalogWorkflow.run,
                CatalogInput(key=RepositoryKey(installation=self._installation, name=name), limits=self._limits),
                id=repository_workflow_id(self._installation, name),
                task_queue=task_queue(self._installation, shard_of_repository(name, self._shards)),
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=REPOSITORY_CHANGED if signal else None,
                start_signal_args=[RepositoryChanged()] if signal else [],
                task_timeout=TASK_TIMEOUT,
                search_attributes=attributes,
                static_summary=f"PackageRepository {name}",
                rpc_timeout=RPC_TIMEOUT,
            )
        except RPCError as error:
            raise _unavailable(name, error) from error


def _unavailable(name: str, error: RPCError) -> TransientError:
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"Temporal answers {error.status.name} for the catalog of {name}",
        hint="it may be starting or overloaded; look at its log",
    )
