"""Which content each package uses: one link for each package id, switched atomically."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.domain.errors import Reason, TransientError


class Deployed:
    """Links ``<root>/<package id>`` to folders of the cache."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def switch(self, package_id: str, content: Path) -> Path:
        """Point the package's link to ``content``; the old content is in use until the new one is.

        Raises:
            TransientError: CHECK_VERSION_FAILED, the content is not there; CREATE_SYMLINK_FAILED, the disk refuses.
        """
        if not content.is_dir():
            raise TransientError(
                Reason.CHECK_VERSION_FAILED, f"{content.name} is not in the package cache", hint="it is fetched again"
            )
        link = self._root / package_id
        fresh = self._root / f".{package_id}.{os.getpid()}"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(os.path.relpath(content, self._root), target_is_directory=True)
            fresh.replace(link)
        except OSError as error:
            raise TransientError(
                Reason.CREATE_SYMLINK_FAILED,
                f"cannot switch {package_id} to {content.name}: {error.strerror or error}",
                hint="make room or mend the rights of the folder",
            ) from error
        return link

    def drop(self, package_id: str) -> None:
        """Remove the package's link; one that is not there is fine.

        Raises:
            TransientError: REMOVE_OLD_VERSION_FAILED, the disk refuses.
        """
        try:
            (self._root / package_id).unlink(missing_ok=True)
        except OSError as error:
            raise TransientError(
                Reason.REMOVE_OLD_VERSION_FAILED, f"cannot remove the link of {package_id}: {error.strerror or error}"
            ) from error

    def in_use(self) -> list[str]:
        """Return the digests that links point to."""
        if not self._root.is_dir():
            return []
        links = [path for path in self._root.iterdir() if path.is_symlink() and not path.name.startswith(".")]
        return sorted({link.readlink().name.replace("-", ":", 1) for link in links})
