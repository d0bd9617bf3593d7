"""``windlass diff``: what is wanted against what is there, or against the last release. Changes nothing."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from windlass.cli.options import DataDir, Name, Namespace
from windlass.cli.output import Output, console, emit

if TYPE_CHECKING:
    from windlass.cli.cluster import Cluster
    from windlass.cli.inspect.rendering import Rendered
    from windlass.contracts.objects import PackageObject
    from windlass.ports.kube import Object, ObjectRef

DIFFERENT: Final = 1
"""Exit code when something differs, as of diff(1)."""

CONTEXT: Final = 3
"""Lines around a difference, as of diff(1)."""

_NOISE: Final = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"})

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Holds the whole object once more, a Secret's texts among it."""


class Against(StrEnum):
    """What the rendered objects are compared with."""

    LIVE = "live"
    RELEASE = "release"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One object as it is and as it would be; None where it does not exist.

    ``approximate`` says why the API server would not say what the object would be.
    """

    ref: ObjectRef
    before: Object | None
    after: Object | None
    approximate: str = ""

    @property
    def change(self) -> str:
        """``created``, ``deleted``, ``changed``, or empty."""
        if self.before is None or self.after is None:
            return "created" if self.before is None else "deleted"
        return "changed" if _clean(self.before) != _clean(self.after) else ""


def diff(
    name: Name,
    namespace: Namespace = "",
    against: Annotated[Against, typer.Option(help="What runs, or what was released last.")] = Against.LIVE,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table (unified diff), json or yaml.")
    ] = Output.TABLE,
    data_dir: DataDir = None,
) -> None:
    """Show what the lifecycle would change now: wanted version and settings against what is there.

    With --against live, the API server completes what is rendered without keeping it, so that defaults and the order of
    fields are no differences; that takes the right to patch the objects. Texts of Secrets are shown as hashes that hold
    for this output only. Exit code 0: no difference; 1: there are some; 2: it could not be told.
    """
    from windlass.cli.cluster import cluster

    async def run() -> list[dict[str, Any]]:
        from windlass.activities.inputs import inputs_of
        from windlass.cli.inspect.rendering import rendered

        async with cluster(namespace, data_dir) as place:
            package = await place.package(name)
            found = await rendered(place, package)
            pairs = await (_live if against is Against.LIVE else _released)(place, package, found)
            concealed = (await inputs_of(package, repositories=place.kube.get, referenced=place.kube.get)).concealed()
        key = secrets.token_bytes(16)
        return [_told(pair, key, concealed) for pair in pairs if pair.change]

    differences = asyncio.run(run())
    if output in {Output.JSON, Output.YAML}:
        emit(differences, output)
    else:
        for one in differences:
            _print(one["diff"])
    if differences:
        raise typer.Exit(DIFFERENT)


async def _live(place: Cluster, package: PackageObject, found: Rendered) -> list[Pair]:
    from windlass.activities.drift import compare
    from windlass.adapters.helm.presence import marked

    release = place.release(package)
    pairs: list[Pair] = []
    for ref, obj in found.objects.items():
        expected = marked(obj, release)
        compared = await compare(place.kube, ref, expected)
        after = expected if compared.live is None else compared.wanted
        pairs.append(Pair(ref=ref, before=compared.live, after=after, approximate=compared.refused))
    stored = await _stored(place, package)
    for ref in stored.keys() - found.objects.keys():
        before = await place.kube.get(ref)
        if before is not None:
            pairs.append(Pair(ref=ref, before=before, after=None))
    return sorted(pairs, key=lambda pair: pair.ref)


async def _released(place: Cluster, package: PackageObject, found: Rendered) -> list[Pair]:
    from windlass.adapters.helm.presence import marked

    release = place.release(package)
    before = await _stored(place, package)
    after = {ref: marked(obj, release) for ref, obj in found.objects.items()}
    return [Pair(ref=ref, before=before.get(ref), after=after.get(ref)) for ref in sorted(before.keys() | after.keys())]


async def _stored(place: Cluster, package: PackageObject) -> dict[ObjectRef, Object]:
    """Return the objects of the newest stored release."""
    from windlass.adapters.helm import manifest
    from windlass.adapters.helm.presence import marked
    from windlass.adapters.helm.storage import Storage

    release = place.release(package)
    storage = Storage(place.kube)
    history = await storage.history(release)
    record = await storage.read(release, history[-1].number) if history else None
    if record is None:
        return {}
    objects = manifest.documents(record.manifest)
    refs = await manifest.locate([manifest.entry(obj) for obj in objects], release.namespace, place.kube)
    return {ref: marked(manifest.placed(obj, ref), release) for ref, obj in zip(refs, objects, strict=True)}


def _told(pair: Pair, key: bytes, concealed: dict[str, Any]) -> dict[str, Any]:
    """Return one difference as programs get it; ``diff`` is what people see."""
    import yaml

    def text(obj: Object | None) -> list[str]:
        if obj is None:
            return []
        shown = _shown(_clean(obj), key, concealed)
        return yaml.safe_dump(shown, allow_unicode=True, width=120).splitlines()

    ref = pair.ref
    before, after = text(pair.before), text(pair.after)
    lines = list(difflib.unified_diff(before, after, f"{ref} is", f"{ref} wanted", n=CONTEXT, lineterm=""))
    if not lines:
        lines = [f"--- {ref}", "differs only in what is hidden"]
    if pair.approximate:
        lines.append(f"# approximate: {pair.approximate}")
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "change": pair.change,
        "diff": "\n".join(lines),
    }


def _clean(obj: Object) -> Object:
    """Leave out what the API server keeps for itself."""
    metadata: dict[str, Any] = obj.get("metadata") or {}
    kept = {key: value for key, value in metadata.items() if key not in _NOISE}
    annotations: dict[str, Any] = kept.get("annotations") or {}
    if _APPLIED in annotations:
        kept["annotations"] = {key: value for key, value in annotations.items() if key != _APPLIED}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": kept}


def _shown(obj: Object, key: bytes, concealed: dict[str, Any]) -> Object:
    """Return what may be seen of an object: a Secret's texts are hashes, which nobody can try texts out on."""
    from windlass.cli.inspect.render import masked

    shown = masked(obj, concealed)
    for part in ("data", "stringData"):
        if obj.get("kind") == "Secret" and isinstance(obj.get(part), dict):
            texts = cast("dict[str, Any]", obj[part])
            shown[part] = {name: _hash(str(value), key) for name, value in texts.items()}
    return shown


def _hash(text: str, key: bytes) -> str:
    return f"hash {hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:8]}"


def _print(text: str) -> None:
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    out = console()
    for line in text.splitlines():
        heading = line.startswith(("+++", "---"))
        out.print(Text(line, "bold" if heading else styles.get(line[:1], "")), soft_wrap=True)
