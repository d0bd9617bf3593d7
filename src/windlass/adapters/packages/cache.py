"""The cache by content: one folder for each digest, complete from the moment it has its name."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windlass.adapters.packages.digest import digest_of
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError

_TEMPORARY: Final = ".new-"


class Cache:
    """Folders ``<root>/sha256-<hex>``; several processes may share them.

    New content is made in a temporary folder beside them and renamed, so that a crash leaves nothing that looks whole.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self) -> None:
        """Make the folder and drop what a crash left unfinished (unless another process works on it)."""
        self._root.mkdir(parents=True, exist_ok=True)
        with self._lock(wait=False) as alone:
            if alone:
                for path in self._root.glob(f"{_TEMPORARY}*"):
                    shutil.rmtree(path, ignore_errors=True)

    def path(self, digest: str) -> Path:
        """Return the folder of ``digest``, whether it is there or not."""
        return self._root / digest.replace(":", "-")

    def find(self, digest: str) -> Path | None:
        """Return the folder of ``digest`` if it is there."""
        path = self.path(digest)
        return path if path.is_dir() else None

    def add(self, digest: str, fill: Callable[[Path], None]) -> Path:
        """Make the folder of ``digest`` with ``fill``; once, however many ask at a time.

        Raises:
            PermanentError: DIGEST_MISMATCH, what was filled in has another digest; whatever ``fill`` raises.
            TransientError: CREATE_PACKAGE_DIR_FAILED, the disk does not take it.
        """
        with self._lock(wait=True):
            found = self.find(digest)
            if found is not None:
                return found
            try:
                return self._made(digest, fill)
            except OSError as error:
                raise TransientError(
                    Reason.CREATE_PACKAGE_DIR_FAILED,
                    f"cannot write the package into {self._root}: {error.strerror or error}",
                    hint="make room or mend the rights of the folder",
                ) from error

    def _made(self, digest: str, fill: Callable[[Path], None]) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self._root))
        try:
            fill(folder)
            _compare(digest_of(folder), digest)
            folder.chmod(0o755)
            target = self.path(digest)
            folder.rename(target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return target

    def digests(self) -> list[str]:
        """Return every digest in the cache."""
        return sorted(path.name.replace("-", ":", 1) for path in self._root.glob("sha256-*"))

    def sweep(self, keep: Sequence[str]) -> list[str]:
        """Drop all but ``keep``; return what was dropped."""
        with self._lock(wait=True):
            dropped = [digest for digest in self.digests() if digest not in keep]
            for digest in dropped:
                doomed = self.path(digest).rename(self._root / f"{_TEMPORARY}swept-{os.getpid()}-{digest[-16:]}")
                shutil.rmtree(doomed, ignore_errors=True)
        return dropped

    @contextmanager
    def _lock(self, *, wait: bool) -> Generator[bool]:
        """Hold the cache's lock; yield whether it was got (always with ``wait``)."""
        with (self._root / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def _compare(actual: str, pinned: str) -> None:
    if actual != pinned:
        raise PermanentError(
            Reason.DIGEST_MISMATCH,
            f"the repository now holds other content under this version: {actual}, pinned was {pinned}",
            hint="publish a new version, or order `windlass retry` to take the new content",
            actor=Actor.AUTHOR,
        )
