"""Files that hold one secret, made once, with mode 0600 from their first byte on; and secrets in the environment."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from windlass.domain.errors import Actor, PermanentError, Reason


@dataclass(frozen=True, kw_only=True)
class Given:
    """A secret as it was given; ``origin`` says where, for error messages."""

    text: str = field(repr=False)
    origin: str


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """Return the text of ``path``; write ``make()`` there first if there is no such file.

    Several processes may call this at once: one text wins and all of them return it.

    Raises:
        PermanentError: as `read`, or the file cannot be made.
    """
    if not path.exists():
        try:
            _create(path, make())
        except OSError as error:
            raise _unusable(path, f"cannot be made: {error.strerror}") from error
    return read(path)


def read(path: Path) -> str:
    """Return the text of ``path``.

    Raises:
        PermanentError: VALIDATION_FAILED, the file cannot be read.
    """
    try:
        return path.read_text()
    except UnicodeDecodeError:
        # The codec's error holds the bytes.
        raise _unusable(path, "is not UTF-8 text") from None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error


def from_environment(environ: Mapping[str, str], *, file: str, text: str) -> Given | None:
    """Return the secret that one of two variables gives, None if neither is set.

    Args:
        environ: the environment.
        file: name of the variable that holds a path.
        text: name of the variable that holds the secret itself.

    Raises:
        PermanentError: VALIDATION_FAILED, both are set; as `read`.
    """
    path, held = environ.get(file, ""), environ.get(text, "")
    if path and held:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"the environment sets both {file} and {text}",
            hint="keep one of them",
            actor=Actor.ADMIN,
        )
    if path:
        return Given(text=read(Path(path)), origin=str(Path(path)))
    return Given(text=held, origin=text) if held else None


def _create(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never replaces what somebody else has just made.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _unusable(path: Path, what: str) -> PermanentError:
    return PermanentError(
        Reason.VALIDATION_FAILED, f"{path} {what}", hint="put it there or name another file", actor=Actor.ADMIN
    )
