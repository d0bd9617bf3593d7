"""How a mistake in what a hook prints for ``--config`` is told: file, key, what stands there, what is expected."""

from __future__ import annotations

from typing import Any, NoReturn

from windlass.domain.errors import Actor, PermanentError, Reason


def refuse(path: str, key: str, problem: str) -> NoReturn:
    """Raise PermanentError(INIT_HOOKS_FAILED) that names the hook's file and the key."""
    where = f"{path} --config: {key}: " if key else f"{path} --config: "
    raise PermanentError(
        Reason.INIT_HOOKS_FAILED,
        where + problem,
        hint="correct what the hook prints for --config and release a new version of the package",
        actor=Actor.AUTHOR,
    )


def described(value: Any) -> str:
    """Describe a wrong value; ``--config`` runs before the hook is given anything secret, so short ones are shown."""
    match value:
        case None:
            return "nothing"
        case bool() | int() | float() | str() if len(str(value)) <= 40:
            return repr(value)
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a long {type(value).__name__}"
