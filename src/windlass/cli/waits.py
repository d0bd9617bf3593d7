"""Waits for Applications by watching them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import typer

from windlass.cli.cluster import Cluster, condition
from windlass.cli.live import applications
from windlass.contracts.objects import Application
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError


async def until_all_ready(place: Cluster, names: list[tuple[str, str]], timeout: float) -> None:  # noqa: ASYNC109 - the command's own option; the text names it
    """Wait for all of them; a failure that a person must mend ends the wait, since time does not."""
    waiting = set(names)

    async def wait(namespace: str, name: str) -> None:
        await _until_ready(place, namespace, name)
        waiting.discard((namespace, name))

    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as group:
            for namespace, name in names:
                group.create_task(wait(namespace, name))
    except TimeoutError:
        left = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(waiting))
        raise TransientError(
            Reason.READINESS_TIMEOUT,
            f"not ready within {timeout:g} s: {left}",
            hint="see what it waits for: `windlass describe NAME -n NAMESPACE`",
        ) from None


async def _until_ready(place: Cluster, namespace: str, name: str) -> None:
    async with aclosing(applications(place, namespace, name)) as stream:
        async for found in stream:
            if not found:
                raise PermanentError(
                    Reason.PACKAGE_NOT_FOUND,
                    f"Application {name} in {namespace} is not there any more, or belongs to another installation",
                    hint="somebody removed it while it was awaited; see `windlass get -A`",
                    actor=Actor.USER,
                )
            if _settled(found[0]):
                typer.echo(f"Application {name} in {namespace} is ready")
                return


def _settled(application: Application) -> bool:
    """Say whether it is ready for what it says now.

    Raises:
        PermanentError: what it says now has failed for good; says what, and what to do.
    """
    status = application.status
    if status is None or status.seen is None or status.seen.generation != application.metadata.generation:
        return False
    failure = status.failure
    if failure is not None and failure.actor is not None:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"Application {application.metadata.name}: {failure.step} failed ({failure.reason}): {failure.message}",
            hint=failure.hint or "see `windlass describe`",
            actor=failure.actor,
        )
    return condition(application, "Ready")[0] == "True"


async def until_gone(place: Cluster, application: Application) -> None:
    """Wait until this very object is gone; one of the same name that comes after it does not count."""
    metadata = application.metadata
    async with aclosing(applications(place, metadata.namespace, metadata.name)) as stream:
        async for found in stream:
            if not found or found[0].metadata.uid != metadata.uid:
                return
