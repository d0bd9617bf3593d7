"""``windlass render``: the manifests that would be applied now, secrets hidden."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from windlass.cli.options import DataDir, DocumentFormat, Name, Namespace
from windlass.cli.output import Document, emit
from windlass.domain.errors import Actor, PermanentError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HIDDEN: Final = "(hidden: --show-secrets)"

_SHORTEST: Final = 4
"""Characters of a setting from a Secret that is looked for elsewhere: a shorter one would hide half of the text."""


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
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Show secrets in clear.")] = False,
    output: DocumentFormat = Document.YAML,
    data_dir: DataDir = None,
) -> None:
    """Show the manifests that the lifecycle would apply now; changes nothing.

    They are rendered with the version and settings that are wanted, which need not be those that run. --set and --file
    are laid over the object's settings: first the files, then --set. Values are YAML: --set replicas=3.
    """
    from windlass.cli.cluster import cluster

    settings = what_if(file or [], set_ or [])

    async def run() -> None:
        from windlass.activities.inputs import inputs_of
        from windlass.cli.inspect.rendering import rendered

        async with cluster(namespace, data_dir) as place:
            package = await place.package(name)
            found = await rendered(place, package, version=version, settings=settings)
            inputs = await inputs_of(package, repositories=place.kube.get, referenced=place.kube.get)
        objects = [*found.objects.values(), *found.hooks.values()]
        shown = objects if show_secrets else [masked(one, inputs.concealed()) for one in objects]
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


def masked(obj: dict[str, Any], concealed: dict[str, Any]) -> dict[str, Any]:
    """Hide the data of a Secret, and in any object the texts that came from Secrets.

    Args:
        obj: as rendered.
        concealed: the settings that came from Secrets.
    """
    shown = dict(obj)
    if obj.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(obj.get(part), dict):
                shown[part] = dict.fromkeys(cast("dict[str, Any]", obj[part]), HIDDEN)
    secrets = sorted({text for text in _texts(concealed) if len(text) >= _SHORTEST}, key=len, reverse=True)
    return cast("dict[str, Any]", _without(shown, secrets))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in cast("dict[str, Any]", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _texts(one)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(one, secrets) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without(one, secrets) for one in cast("list[Any]", value)]
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return value
    text = str(value)
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return value if text == str(value) else text


def _refused(problem: str, hint: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, problem, hint=hint, actor=Actor.USER)
