"""Makes folders reachable for the users of packages when a folder above them is closed, like ``/root`` or a home.

The runner gets mounts of its own, in which an empty folder lies over the closed one, and in that only what hooks need.
Nothing changes for anybody else. It takes the capability SYS_ADMIN.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from windlass.adapters.runner import kernel

_SEARCHABLE: Final = stat.S_IXOTH


def closed_above(path: str) -> str:
    """Return the topmost folder on the way to ``path`` that other users may not pass; empty if there is none."""
    passed = "/"
    for name in os.path.realpath(path).split("/")[1:-1]:
        passed = os.path.join(passed, name)
        if not os.stat(passed).st_mode & _SEARCHABLE:
            return passed
    return ""


def uncover(folders: Iterable[str]) -> None:
    """See to it that other users can reach ``folders``, which must exist.

    Raises:
        OSError: not permitted; the text says which folder is closed.
    """
    closed: dict[str, list[str]] = {}
    for folder in folders:
        real = os.path.realpath(folder)
        if not os.stat(real).st_mode & _SEARCHABLE:
            raise OSError(0, f"hooks run as users of their own, for whom {folder} is closed: chmod o+x")
        if above := closed_above(real):
            closed.setdefault(above, []).append(real)
    if not closed:
        return
    if not kernel.capable(kernel.SYS_ADMIN):
        names = ", ".join(sorted(closed))
        raise OSError(0, f"hooks run as users of their own, who cannot pass {names}: chmod o+x, or another data folder")
    kernel.leave_mount_namespace()
    for above, inside in closed.items():
        _lay_over(above, sorted(set(inside)))


def _lay_over(above: str, folders: list[str]) -> None:
    kept = [(folder, os.open(folder, os.O_PATH | os.O_DIRECTORY)) for folder in folders]
    kernel.mount("windlass", above, "tmpfs", 0, "mode=0711,size=1m")
    for folder, descriptor in kept:
        if not os.path.isdir(folder) or not os.path.samestat(os.stat(folder), os.fstat(descriptor)):
            os.makedirs(folder, 0o711, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{descriptor}", folder, "", kernel.MS_BIND | kernel.MS_REC)
        os.close(descriptor)
