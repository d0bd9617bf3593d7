"""Helm's verbs, each run once: by a warm child if it can, by the ``helm`` program if it must. No policy."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from windlass.adapters.helm import failures
from windlass.adapters.helm.chart import annotated
from windlass.adapters.helm.pool import ChildPool
from windlass.adapters.helm.program import HelmProgram, Place
from windlass.adapters.helm.protocol import HelmFailedError, Order
from windlass.adapters.helm.shares import Shares
from windlass.adapters.helm.staging import new_folder, staged, unstaged
from windlass.domain.errors import Reason, TransientError
from windlass.domain.lifecycle.releases import Operation
from windlass.ports.helm import ReleaseRef, ReleaseRequest

UNINSTALL_SECONDS: Final = 300.0
"""Bounds one uninstall, its Helm hooks included; waiting for the objects to be gone is not part of it."""


KILL_AFTER: Final = 2.0
"""Seconds past its time-out after which an operation is killed; until then Helm may end by itself and say on what."""


class Operations:
    """Runs operations and turns their failures into typed errors.

    Charts with Helm hooks go through the program, because hooks wait inside Helm, and so do installs over unfinished
    records, which the library cannot do.
    """

    def __init__(self, *, pool: ChildPool, program: HelmProgram, scratch: Path, shares: Shares) -> None:
        self._pool = pool
        self._shares = shares
        self._program = program
        self._scratch = scratch
        self._surface = 0

    def api_changed(self) -> None:
        """Note that the cluster serves other kinds now: children discover anew before their next order."""
        self._surface += 1

    async def apply(self, request: ReleaseRequest, operation: Operation, kubeconfig: Path) -> None:
        """Install or upgrade.

        Raises:
            TransientError, PermanentError: see `windlass.adapters.helm.failures`.
        """
        verb = "upgrade" if operation is Operation.UPGRADE else "install"
        metadata = annotated(request.chart, request.digest, name=request.ref.name, owner=request.owner)
        with _typed_failures(f"Helm {verb} of {request.ref}", request.ref, request.secrets, request.timeout):
            async with self._shares.taken(request.ref.target), asyncio.timeout(request.timeout + KILL_AFTER):
                if request.chart_has_hooks or operation is Operation.REINSTALL:
                    with staged(request.chart, metadata, new_folder(self._scratch)) as chart:
                        await self._apply_by_program(request, operation, chart, kubeconfig)
                else:
                    await self._apply_by_child(request, verb, metadata, kubeconfig)

    async def _apply_by_program(
        self, request: ReleaseRequest, operation: Operation, chart: Path, kubeconfig: Path
    ) -> None:
        place = Place(ref=request.ref, kubeconfig=kubeconfig)
        if operation is Operation.UPGRADE:
            await self._program.upgrade(
                place, chart, request.values, seconds=request.timeout, history_max=request.history_max
            )
        else:
            replace = operation is Operation.REINSTALL
            await self._program.install(place, chart, request.values, seconds=request.timeout, replace=replace)

    async def _apply_by_child(
        self, request: ReleaseRequest, verb: Literal["install", "upgrade"], metadata: str, kubeconfig: Path
    ) -> None:
        folder = new_folder(self._scratch)
        order = Order(
            operation=verb,
            kubeconfig=str(kubeconfig),
            namespace=request.ref.namespace,
            name=request.ref.name,
            chart=str(request.chart),
            metadata=metadata,
            folder=str(folder),
            values=request.values,
            history_max=request.history_max,
            timeout=max(1, int(request.timeout)),
            surface=self._surface,
        )
        try:
            reply = await self._pool.run(order)
        finally:
            unstaged(folder)  # the child does it itself, unless it was killed
        if reply.error:
            raise HelmFailedError(reply.error)

    async def uninstall(self, ref: ReleaseRef, kubeconfig: Path, *, has_hooks: bool) -> None:
        """Uninstall; a release that is not there is fine.

        Raises:
            TransientError, PermanentError: see `windlass.adapters.helm.failures`.
        """
        with _typed_failures(f"Helm uninstall of {ref}", ref, frozenset(), UNINSTALL_SECONDS):
            async with self._shares.taken(ref.target), asyncio.timeout(UNINSTALL_SECONDS + KILL_AFTER):
                if has_hooks:
                    await self._program.uninstall(Place(ref=ref, kubeconfig=kubeconfig), seconds=UNINSTALL_SECONDS)
                else:
                    await self._uninstall_by_child(ref, kubeconfig)

    async def _uninstall_by_child(self, ref: ReleaseRef, kubeconfig: Path) -> None:
        order = Order(
            operation="uninstall",
            kubeconfig=str(kubeconfig),
            namespace=ref.namespace,
            name=ref.name,
            timeout=int(UNINSTALL_SECONDS),
            surface=self._surface,
        )
        reply = await self._pool.run(order)
        if reply.error and not reply.absent:
            raise HelmFailedError(reply.error)

    async def render(self, request: ReleaseRequest, kubeconfig: Path, *, upgrade: bool) -> str:
        """Return the manifest without applying it; ``upgrade`` is what templates see as ``.Release.IsUpgrade``.

        Raises:
            TransientError, PermanentError: see `windlass.adapters.helm.failures`.
        """
        metadata = annotated(request.chart, "", name=request.ref.name)
        with (
            staged(request.chart, metadata, new_folder(self._scratch)) as chart,
            _typed_failures(f"rendering of {request.ref}", request.ref, request.secrets, request.timeout),
        ):
            async with asyncio.timeout(request.timeout + KILL_AFTER):
                place = Place(ref=request.ref, kubeconfig=kubeconfig)
                return await self._program.render(place, chart, request.values, upgrade=upgrade)


@contextmanager
def _typed_failures(what: str, ref: ReleaseRef, secrets: frozenset[str], seconds: float) -> Generator[None]:
    try:
        yield
    except HelmFailedError as error:
        # The cause is left out: its text may quote secrets.
        raise failures.failed(what, str(error), secrets=secrets, whom=ref.target.whom) from None
    except TimeoutError:
        raise TransientError(
            Reason.APPLY_MANIFESTS_FAILED,
            f"{what} did not end within {seconds:g} s and was killed",
            hint="it is tried again; look for a Helm hook that waits or a slow API server",
        ) from None
