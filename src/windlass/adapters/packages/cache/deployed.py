"""Which content each package uses: one link for each package id, switched atomically."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import is_dns_label

_FRESH: Final = "."
"""What the name of a link starts with until it is in place."""


class Deployed:
    """Links ``<root>/<package id>`` to folders of the cache."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def switch(self, package_id: str, content: Path) -> Path:
        """Point the package's link to ``content``; the old content is in use until the new one is.

        Raises:
            PermanentError: CREATE_SYMLINK_FAILED, that is no package id.
            TransientError: CHECK_VERSION_FAILED, the content is not there; CREATE_SYMLINK_FAILED, the disk refuses.
        """
        link = self._link(package_id)
        if not content.is_dir():
            raise TransientError(
                Reason.CHECK_VERSION_FAILED, f"{content.name} is not in the package cache", hint="it is fetched again"
            )
        fresh = self._fresh(package_id)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)  # a crash may have left one
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
            PermanentError: CREATE_SYMLINK_FAILED, that is no package id.
            TransientError: REMOVE_OLD_VERSION_FAILED, the disk refuses.
        """
        link = self._link(package_id)
        try:
            link.unlink(missing_ok=True)
            self._fresh(package_id).unlink(missing_ok=True)
        except OSError as error:
            raise TransientError(
                Reason.REMOVE_OLD_VERSION_FAILED,
                f"cannot remove the link of {package_id}: {error.strerror or error}",
                hint="mend the rights of the folder",
            ) from error

    def in_use(self) -> list[str]:
        """Return the digests that links point to."""
        if not self._root.is_dir():
            return []
        links = [path for path in self._root.iterdir() if path.is_symlink() and not path.name.startswith(_FRESH)]
        return sorted({link.readlink().name.replace("-", ":", 1) for link in links})

    def _link(self, package_id: str) -> Path:
        """Return where the link is; an id has one part (a module) or two (``<namespace>.<instance>``)."""
        parts = package_id.split(".")
        if len(parts) > 2 or not all(is_dns_label(part) for part in parts):
            raise PermanentError(
                Reason.CREATE_SYMLINK_FAILED,
                f"invalid package name {package_id!r}",
                hint="it must be <namespace>.<instance>, both DNS labels",
                actor=Actor.USER,
            )
        return self._root / package_id

    def _fresh(self, package_id: str) -> Path:
        return self._root / f"{_FRESH}{package_id}"
