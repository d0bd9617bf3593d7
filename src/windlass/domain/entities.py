"""Entities of a key-value store that are the target state of a controller: operations and legal keys."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

KEY_MAX: Final = 1024
"""Bytes of a key: far below what a NATS subject may have (4 KB with its prefix), far above what a name needs."""

_KEY: Final = re.compile(r"[-/_=.a-zA-Z0-9]+")


class Operation(IntEnum):
    """What happened to a primary resource (contract: Operation; frameworks.md section 2.2).

    Only a hint for logs: a handler gets the key, reads the entity, and takes an absent one for deleted.
    """

    PUT = 0
    DELETE = 1
    PURGE = 2
    SECONDARY = 3


def is_valid_key(key: object) -> bool:
    """Say whether ``key`` can name an entity.

    The characters are those of keys in NATS key-value buckets (ADR-8 of NATS); a dot separates tokens, so that
    none may be empty. A key that is not valid can be read from nowhere, and trying again never helps.
    """
    return (
        isinstance(key, str)
        and len(key) <= KEY_MAX
        and _KEY.fullmatch(key) is not None
        and all(token for token in key.split("."))
    )
