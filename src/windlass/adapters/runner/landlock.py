"""Landlock rulesets (https://docs.kernel.org/userspace-api/landlock.html): what a process may touch of the file system.

What is not granted is denied: reading, writing and executing files. Paths themselves may still be looked at (stat).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from windlass.adapters.runner.kernel import syscall

# The numbers are the same on every architecture.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH: Final = 1  # LANDLOCK_RULE_PATH_BENEATH

# linux/landlock.h
_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_FIRST: Final = (1 << 13) - 1  # everything that the first version knows
_SCOPE_ABSTRACT_UNIX_SOCKET: Final = 1 << 0
_SCOPE_SIGNAL: Final = 1 << 1

READ: Final = _READ_FILE | _READ_DIR | _EXECUTE
WRITE: Final = _FIRST & ~(1 << 6 | 1 << 11) | _REFER | _TRUNCATE  # no device nodes (MAKE_CHAR, MAKE_BLOCK)
DEVICE: Final = _READ_FILE | _WRITE_FILE | _IOCTL_DEV

_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_SCOPES_SINCE: Final = 6
_NETWORK_SINCE: Final = 4


def version() -> int:
    """Return the kernel's Landlock version, 0 if it has none or it is switched off."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def ruleset(known: int, granted: Iterable[tuple[int, int]]) -> int:
    """Make a ruleset and return its descriptor.

    Args:
        known: the kernel's version.
        granted: descriptors of files and folders, and what is allowed in each.

    Raises:
        OSError: the kernel refuses.
    """
    handled = _FIRST
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        handled |= right if known >= since else 0
    attributes = struct.pack("=Q", handled)
    if known >= _NETWORK_SINCE:
        attributes += struct.pack("=Q", 0)  # the network is not restricted: hooks talk to the API server
    if known >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _SCOPE_SIGNAL | _SCOPE_ABSTRACT_UNIX_SOCKET)
    descriptor = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for target, rights in granted:
            fitting = handled if stat.S_ISDIR(os.fstat(target).st_mode) else handled & _OF_FILES
            syscall(_ADD_RULE, descriptor, _PATH_BENEATH, struct.pack("=Qi", rights & fitting, target), 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def restrict(descriptor: int) -> None:
    """Live by a ruleset from now on, and everything started from here; it cannot be undone.

    Raises:
        OSError: the kernel refuses.
    """
    syscall(_RESTRICT_SELF, descriptor, 0)
