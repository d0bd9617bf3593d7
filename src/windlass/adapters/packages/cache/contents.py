"""The cache by content: one folder for each digest, complete from the moment it has its name."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.adapters.packages.format.digest import PATTERN, digest_of
from windlass.adapters.packages.format.entries import UNBOUNDED
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError

type Fill = Callable[[Path], Path]
"""Brings content into an empty folder; returns the package's folder, which is that one or lies below it."""

_UNFINISHED: Final = ".new-"
_DOOMED: Final = ".old-"
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})


class Cache:
    """Folders ``<root>/sha256-<hex>``; several processes may share them.

    New content is made in a temporary folder beside them and renamed, so that a crash leaves nothing that looks whole.
    Two processes that bring the same content at once both make it; the second finds it there and drops its own.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self) -> None:
        """Make the folder, and drop what dead processes left unfinished."""
        self._root.mkdir(parents=True, exist_ok=True)
        with self.locked(exclusive=True):
            for path in self._root.glob(f"{_DOOMED}*"):
                shutil.rmtree(path, ignore_errors=True)
            for path in self._root.glob(f"{_UNFINISHED}*"):
                if not _is_in_work(path):
                    shutil.rmtree(path, ignore_errors=True)

    def path(self, digest: str) -> Path:
        """Return the folder of ``digest``, whether it is there or not.

        Raises:
            PermanentError: STATE_REJECTED, it is no digest.
        """
        if PATTERN.fullmatch(digest) is None:
            raise PermanentError(
                Reason.STATE_REJECTED,
                f"{digest[:80]!r} is not a content digest",
                hint="delete the package's state Secret; it is written anew",
                actor=Actor.ADMIN,
            )
        return self._root / digest.replace(":", "-")

    def find(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is there."""
        path = self.path(digest)
        return path if path.is_dir() else None

    def add(self, digest: str, fill: Fill) -> Path:
        """Make the folder of ``digest`` with ``fill`` unless it is there.

        Raises:
            PermanentError: DIGEST_MISMATCH, what was filled in has another digest; whatever ``fill`` raises.
            TransientError: CREATE_PACKAGE_DIR_FAILED, the source cannot be read or the disk does not take it.
        """
        found = self.find(digest)
        if found is None:
            _, found = self._take_in(fill, digest)
        return found

    def admit(self, fill: Fill) -> str:
        """Take in what ``fill`` brings, whatever it is; return its digest.

        Raises:
            PermanentError, TransientError: as `add`.
        """
        return self._take_in(fill)[0]

    def _take_in(self, fill: Fill, pinned: str = "") -> tuple[str, Path]:
        try:
            with self._workshop() as folder:
                content = fill(folder)
                digest = digest_of(content, UNBOUNDED)
                if pinned:
                    _compare(digest, pinned)
                target = self.path(digest)
                try:
                    content.chmod(0o755)  # temporary folders are their owner's only
                    content.rename(target)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                return digest, target
        except OSError as error:
            raise TransientError(
                Reason.CREATE_PACKAGE_DIR_FAILED,
                f"cannot bring the package into {self._root}: {error.strerror or error}: {error.filename}",
                hint="make room, or mend the rights of that path",
            ) from error

    @contextmanager
    def scratch(self) -> Generator[Path]:
        """Yield an empty folder that goes with the context, or with the next `prepare` if the process dies."""
        with self._workshop() as folder:
            yield folder

    def discard(self, digest: str) -> None:
        """Drop one content that is damaged."""
        with self.locked(exclusive=True):
            doomed = self._doom([digest])
        _remove(doomed)

    def digests(self) -> list[str]:
        """Return every digest in the cache."""
        return sorted(path.name.replace("-", ":", 1) for path in self._root.glob("sha256-*"))

    def sweep(self, in_use: Callable[[], Iterable[str]]) -> list[str]:
        """Drop all but what ``in_use`` says once nothing can be deployed meanwhile; return what was dropped."""
        with self.locked(exclusive=True):
            kept = set(in_use())
            dropped = [digest for digest in self.digests() if digest not in kept]
            doomed = self._doom(dropped)
        _remove(doomed)
        return dropped

    @contextmanager
    def locked(self, *, exclusive: bool = False) -> Generator[None]:
        """Hold the cache's lock, which is never held for longer than some renames take."""
        with (self._root / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield

    def _doom(self, digests: Iterable[str]) -> list[Path]:
        doomed: list[Path] = []
        for digest in digests:
            path = self.path(digest)
            grave = Path(tempfile.mkdtemp(prefix=_DOOMED, dir=self._root))
            try:
                path.rename(grave / "content")
            except FileNotFoundError:
                pass
            finally:
                doomed.append(grave)
        return doomed

    @contextmanager
    def _workshop(self) -> Generator[Path]:
        """Yield a temporary folder whose lock says that somebody works on it; the kernel drops it with its holder."""
        with self.locked():
            folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._root))
            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
        try:
            content = folder / "content"
            content.mkdir()
            yield content
        finally:
            os.close(held)
            shutil.rmtree(folder, ignore_errors=True)


def _is_in_work(folder: Path) -> bool:
    try:
        held = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:  # its owner has just finished
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(held)
    return False


def _remove(doomed: Iterable[Path]) -> None:
    for path in doomed:
        shutil.rmtree(path, ignore_errors=True)


def _compare(actual: str, pinned: str) -> None:
    if actual != pinned:
        raise PermanentError(
            Reason.DIGEST_MISMATCH,
            f"the repository now holds other content under this version: {actual}, pinned was {pinned}",
            hint="publish a new version, or use `windlass retry` to take the new content",
            actor=Actor.AUTHOR,
        )
