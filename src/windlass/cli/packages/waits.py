"""Waits for packages by watching them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

import typer

from windlass.cli.cluster import Cluster, condition
from windlass.cli.packages.live import packages
from windlass.contracts.objects import PackageObject
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import Kind, PackageKey

_ENDS: Final = frozenset({"RolledBack", "Held", "Breakpoint"})
"""Reasons of `Ready` that only a person's action or another wish ends."""


async def until_all_ready(place: Cluster, keys: list[PackageKey], timeout: float) -> None:  # noqa: ASYNC109 - the command's own option; the text names it
    """Wait for all of them; a failure that a person must mend ends the wait, since time does not."""
    waiting = set(keys)

    async def wait(key: PackageKey) -> None:
        await _until_ready(place, key)
        waiting.discard(key)

    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(wait(key))
    except TimeoutError:
        left = ", ".join(sorted(_words(key) for key in waiting))
        raise TransientError(
            Reason.READINESS_TIMEOUT,
            f"not ready within {timeout:g} s: {left}",
            hint="see what it waits for: `windlass describe [TYPE/]NAME -n NAMESPACE`",
        ) from None


async def _until_ready(place: Cluster, key: PackageKey) -> None:
    async with aclosing(packages(place, key.namespace, key.name, kind=key.kind)) as stream:
        async for found in stream:
            if not found:
                raise PermanentError(
                    Reason.PACKAGE_NOT_FOUND,
                    f"{_words(key)} is not there any more, or belongs to another installation",
                    hint="somebody removed it while it was awaited; see `windlass get -A`",
                    actor=Actor.USER,
                )
            if _settled(found[0]):
                typer.echo(f"{_words(key)} is ready")
                return


def _words(key: PackageKey) -> str:
    return f"{key.kind.value} {key.name}" + (f" in {key.namespace}" if key.namespace else "")


def _settled(package: PackageObject) -> bool:
    """Say whether it is ready for what it says now.

    Raises:
        PermanentError: what it says now has failed for good; says what, and what to do.
    """
    status = package.status
    if status is None or status.seen is None or status.seen.generation != package.metadata.generation:
        return False
    failure = status.failure
    if failure is not None and failure.actor is not None:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{type(package).__name__} {package.metadata.name}: "
            f"{failure.step} failed ({failure.reason}): {failure.message}",
            hint=failure.hint or "see `windlass describe`",
            actor=failure.actor,
        )
    ready, reason, message = condition(package, "Ready")
    if reason in _ENDS:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{type(package).__name__} {package.metadata.name}: {message}",
            hint="see `windlass describe`",
            actor=Actor.USER,
        )
    return ready == "True"


async def until_gone(place: Cluster, package: PackageObject) -> None:
    """Wait until this very object is gone; one of the same name that comes after it does not count."""
    metadata = package.metadata
    kind = Kind(type(package).__name__)
    async with aclosing(packages(place, metadata.namespace, metadata.name, kind=kind)) as stream:
        async for found in stream:
            if not found or found[0].metadata.uid != metadata.uid:
                return
