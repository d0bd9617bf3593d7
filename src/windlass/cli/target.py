"""How people name packages on the command line: ``NAME`` or ``TYPE/NAME``, as they know it from kubectl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.ids import GROUP, Kind

if TYPE_CHECKING:
    from windlass.contracts.objects import PackageObject

_WORDS: Final = {
    Kind.APPLICATION: ("application", "applications", f"applications.{GROUP}", "app", "apps", "wapp"),
    Kind.MODULE: ("module", "modules", f"modules.{GROUP}", "mod", "mods", "wmod"),
}
_KINDS: Final = {word: kind for kind, words in _WORDS.items() for word in words}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a command is about: one package, or all of one kind when ``name`` is empty."""

    kind: Kind
    name: str = ""


def parse_target(text: str) -> Target:
    """Read ``NAME`` (an Application) or ``TYPE/NAME``.

    Raises:
        PermanentError: VALIDATION_FAILED, there is no such type; says which there are.
    """
    type_, slash, name = text.partition("/")
    if not slash:
        return Target(kind=Kind.APPLICATION, name=text)
    kind = _KINDS.get(type_.lower())
    if kind is None:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{text!r}: there is no type {type_!r}",
            hint="write NAME or app/NAME for an Application, module/NAME for a Module",
            actor=Actor.USER,
        )
    return Target(kind=kind, name=name)


def parse_selection(text: str) -> Target:
    """Read what a listing is about: a type (``modules``), else as `parse_target`; nothing means all Applications.

    Raises:
        PermanentError: as `parse_target`.
    """
    kind = _KINDS.get(text.lower())
    return parse_target(text) if kind is None else Target(kind=kind)


def address(package: PackageObject) -> str:
    """Return ``TYPE/NAME`` of a package, which says the same whatever its kind."""
    return f"{type(package).__name__.lower()}/{package.metadata.name}"


def named(package: PackageObject) -> str:
    """Return how a further command names this package: ``web -n prod``, ``module/ingress``."""
    metadata = package.metadata
    if metadata.namespace:
        return f"{metadata.name} -n {metadata.namespace}"
    return address(package)
