"""Package folders and archives that tests make, honest ones and tampered ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

DEFINITION = {"type": "Application", "name": "webapp", "version": "1.0.0"}


def package_yaml(**fields: Any) -> str:
    return yaml.safe_dump(DEFINITION | fields)


def write_tree(root: Path, files: Mapping[str, str | bytes], *, executable: Iterable[str] = ()) -> Path:
    """Write files by path below ``root``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if name in executable else 0o644)
    return root


def entry(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """One tar entry; ``fields`` are those of `tarfile.TarInfo`."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar_bytes(entries: Iterable[tuple[tarfile.TarInfo, bytes]], *, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar archive that is not compressed yet."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def write_tgz(path: Path, entries: Iterable[tuple[tarfile.TarInfo, bytes]], **more: Any) -> Path:
    """Write a gzipped tar archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(tar_bytes(entries, **more)))
    return path


def tgz_of(path: Path, folder: Path, *, top: str = "") -> Path:
    """Write an archive of a folder as ``tar`` does, optionally with one folder around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=top or ".")
    return path
