"""``windlass tree|events|history``: what a package has in the cluster, what is said about it, what happened to it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import typer

from windlass.cli.options import DataDir, Format, Name, Namespace, Since, Watch
from windlass.cli.output import Output, console, emit

_PROGRAMS = {Output.JSON, Output.YAML}


def tree(
    name: Name, namespace: Namespace = "", watch: Watch = False, output: Format = Output.TABLE, data_dir: DataDir = None
) -> None:
    """Show a package's objects as a tree down to its pods, each with its state."""
    _refuse_watching(output, watch=watch)
    from windlass.cli.cluster import cluster

    async def run() -> None:
        from windlass.cli.inspect.endpoint import inspecting
        from windlass.cli.inspect.live_tree import follow_tree, inventory_of
        from windlass.cli.inspect.tree import TreeView, document

        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            if watch:
                await follow_tree(place, endpoint, await place.package(name))
                return
            found = await inventory_of(endpoint, await endpoint.key(name))
            if output in _PROGRAMS:
                emit(document(found.root), output)
            else:
                console().print(TreeView(found, datetime.now(UTC)))

    asyncio.run(run())


def events(
    name: Name,
    namespace: Namespace = "",
    watch: Watch = False,
    since: Since = None,
    output: Format = Output.TABLE,
    data_dir: DataDir = None,
) -> None:
    """Show the Events of a package and of all its objects, newest last. The API server keeps them for an hour."""
    _refuse_watching(output, watch=watch)
    from windlass.cli.cluster import cluster

    async def run() -> None:
        from windlass.cli.inspect import events as reading
        from windlass.cli.inspect.endpoint import inspecting

        now = datetime.now(UTC)
        oldest = now - timedelta(seconds=since) if since is not None else datetime.min.replace(tzinfo=UTC)
        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            key = await endpoint.key(name)
            if watch:
                async with aclosing(reading.follow_events(place, endpoint, key)) as stream:
                    async for event in stream:
                        if reading.seen_at(event) >= oldest:
                            reading.write_line(event)
                return
            found = [
                one for one in await reading.package_events(place, endpoint, key) if reading.seen_at(one) >= oldest
            ]
            if output in _PROGRAMS:
                emit([reading.event_document(one) for one in found], output)
            elif found:
                console().print(reading.events_table(found, now))
            else:
                sys.stderr.write(f"No events of {name}.\n")

    asyncio.run(run())


def history(
    name: Name, namespace: Namespace = "", since: Since = None, output: Format = Output.TABLE, data_dir: DataDir = None
) -> None:
    """Tell what happened to a package, when, by whom and why, newest last (UTC).

    Steps, signals and actions come from Temporal, revisions from Helm's records, further actions and the last change of
    each condition from the object's status. What is not known any more is said on standard error.
    """
    from windlass.cli.cluster import cluster

    async def run() -> None:
        from windlass.cli.inspect.endpoint import inspecting
        from windlass.cli.inspect.history import history_table
        from windlass.contracts.inspection import Question, View
        from windlass.observers.inspection.story import history_document, received

        oldest = datetime.now(UTC) - timedelta(seconds=since) if since is not None else None
        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            key = await endpoint.key(name)
            story = received(await endpoint.ask(key, View.HISTORY, Question(oldest=oldest)))
        if output in _PROGRAMS:
            emit(history_document(story), output)
            return
        if story.entries:
            console().print(history_table(story.entries))
        else:
            typer.echo(f"Nothing is known to have happened to {name} in that time.")
        for text in story.forgotten:
            sys.stderr.write(f"not known any more: {text}\n")

    asyncio.run(run())


def _refuse_watching(output: Output, *, watch: bool) -> None:
    if watch and output in _PROGRAMS:
        raise typer.BadParameter("--watch shows tables and lines; programs watch the API", param_hint="--watch")
