"""Login files of NATS, read and checked before nats-py gets them.

nats-py looks for the begin of a JWT until it finds one, at the end of a file too: a file without one would stop the
whole process. What is read here is read once: a login that has expired ends the connection for good, so the operator
ends, and is started again with the file that is there then.
"""

from __future__ import annotations

import binascii
import re
from pathlib import Path
from typing import Any, Final

import nkeys
from nats.aio.client import RawCredentials

from windlass.domain.errors import Actor, PermanentError, Reason

_nkeys: Any = nkeys  # has no types
_JWT: Final = re.compile(r"^-+BEGIN NATS USER JWT-+\s+([\w.=-]+)\s+-+END NATS USER JWT-+\s*$", re.MULTILINE)
_SEED: Final = re.compile(r"^-+BEGIN USER NKEY SEED-+\s+(\w+)\s+-+END USER NKEY SEED-+\s*$", re.MULTILINE)
_USER: Final = "SU"
"""What the seed of a user begins with (nkeys: S for seed, U for user)."""


def credentials(path: Path) -> RawCredentials:
    """Read a ``.creds`` file: JWT and seed of a user.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), it cannot be read or is no such file.
    """
    text = read(path)
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise _unfit(path, "holds no JWT and seed of a user", "name a file that `nsc generate creds` has written")
    _check(path, seed[1])
    # As nats-py reads it, byte for byte; the file may have been written elsewhere.
    return RawCredentials(
        f"-----BEGIN NATS USER JWT-----\n{jwt[1]}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed[1]}\n------END USER NKEY SEED------\n"
    )


def nkey_seed(path: Path) -> str:
    """Read a file with the NKey seed of a user.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), it cannot be read or holds something else.
    """
    seed = read(path).strip()
    _check(path, seed)
    return seed


def read(path: Path) -> str:
    """Read a file that the access to NATS names.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), it cannot be read or is no text.
    """
    try:
        return path.read_text()
    except OSError as error:
        raise _unfit(path, f"cannot be read: {error.strerror}", "correct the path, or the rights") from None
    except UnicodeDecodeError:
        raise _unfit(path, "is no text", "name a text file (PEM, .creds, seed, password)") from None


def _check(path: Path, seed: str) -> None:
    try:
        _nkeys.from_seed(bytearray(seed.encode())).wipe()
        fits = seed.startswith(_USER)
    except (_nkeys.NkeysError, binascii.Error, ValueError):
        fits = False
    if not fits:
        raise _unfit(path, "holds no NKey seed of a user", f"a seed of a user begins with {_USER}")


def _unfit(path: Path, why: str, hint: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, f"NATS access: {path} {why}", hint=hint, actor=Actor.ADMIN)
