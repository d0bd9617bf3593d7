"""``windlass render``: the manifests that would be applied now, secrets hidden."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from windlass.cli.options import DataDir, DocumentFormat, Name, Namespace
from windlass.cli.output import Document, emit
from windlass.domain.errors import Actor, PermanentError, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence


def render(
    name: Name,
    namespace: Namespace = "",
    version: Annotated[str, typer.Option(help="As if this version were wanted.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="As if this setting were so; repeat.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="YAML file of settings, as if they were so; repeat.")
    ] = None,
    output: DocumentFormat = Document.YAML,
    data_dir: DataDir = None,
) -> None:
    """Show the manifests that the lifecycle would apply now; changes nothing. Secrets are hidden.

    They are rendered with the version and settings that are wanted, which need not be those that run. --set and --file
    are laid over the object's settings: first the files, then --set. Values are YAML: --set replicas=3. Asking for
    another version or other settings takes the right to update the package.
    """
    from windlass.cli.cluster import cluster
    from windlass.contracts.inspection import Question, View

    settings = what_if(file or [], set_ or [])

    async def run() -> None:
        from windlass.cli.inspect.endpoint import inspecting

        async with cluster(namespace, data_dir) as place, inspecting(place) as endpoint:
            shown = await endpoint.ask(
                await endpoint.key(name), View.RENDER, Question(version=version, settings=settings)
            )
        if output is Document.JSON:
            emit({"apiVersion": "v1", "kind": "List", "items": shown}, output)
            return
        for one in shown:
            sys.stdout.write("---\n")
            emit(one, output)

    asyncio.run(run())


def what_if(files: Sequence[Path], pairs: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--file`` and ``--set``, merged; later ones win.

    Raises:
        PermanentError: VALIDATION_FAILED, names the file or the option.
    """
    from windlass.domain.text.documents import DocumentError, parse_document
    from windlass.domain.text.tree import merge

    def parsed(text: str, where: str) -> Any:
        try:
            return parse_document(text)
        except DocumentError as error:
            raise _refused(f"{where}: {error.message}", "correct the YAML") from None

    settings: dict[str, Any] = {}
    for path in files:
        try:
            found = parsed(path.read_text(), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(f"{path} cannot be read: {error}", "name a text file") from error
        if not isinstance(found, dict):
            raise _refused(f"{path} is no mapping of settings", "write it like spec.settings")
        settings = merge(settings, cast("dict[str, Any]", found))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        steps = name.split(".")
        if not equals or not all(steps):
            raise _refused(f"--set {pair!r} is not PATH=VALUE", "write it like --set cache.host=other")
        value: Any = parsed(text, f"--set {name}") if text else ""
        for step in reversed(steps):
            value = {step: value}
        settings = merge(settings, value)
    return settings


def _refused(problem: str, hint: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, problem, hint=hint, actor=Actor.USER)
