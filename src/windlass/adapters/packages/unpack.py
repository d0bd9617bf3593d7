"""Unpacks an archive that nobody has vetted: every trick is refused by name, and nothing half-written stays."""

from __future__ import annotations

import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, NoReturn

from windlass.adapters.packages.digest import JUNK
from windlass.domain.errors import Actor, PermanentError, Reason

_CHUNK: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an archive may at most be; sizes in bytes.

    The defaults leave a package of thousands of manifests room and keep a bomb from filling a disk. ``ratio`` is
    unpacked to packed size, looked at above ``ratio_floor`` bytes.
    """

    packed: int = 64 << 20
    unpacked: int = 256 << 20
    file: int = 64 << 20
    entries: int = 20_000
    depth: int = 32
    path: int = 512
    ratio: int = 200
    ratio_floor: int = 8 << 20


def unpack(archive: Path, target: Path, limits: Limits) -> None:
    """Unpack the gzipped tar ``archive`` into ``target``, which exists and is empty.

    A single top folder (as ``helm package`` and ``tar`` make it) is taken off. On error the caller throws
    ``target`` away.

    Raises:
        PermanentError: ARCHIVE_REJECTED naming the entry and the rule or limit it breaks.
    """
    packed = archive.stat().st_size
    if packed > limits.packed:
        _refuse(archive.name, f"has {packed} bytes, at most {limits.packed} are allowed")
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            _Unpacking(tar, target, packed, limits).run()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's fault, not the archive's
        _refuse(archive.name, f"is not a whole gzipped tar archive ({error})")


class _Unpacking:
    def __init__(self, tar: tarfile.TarFile, target: Path, packed: int, limits: Limits) -> None:
        self._tar = tar
        self._target = target
        self._packed = packed
        self._limits = limits
        self._total = 0
        self._seen: set[str] = set()

    def run(self) -> None:
        for count, member in enumerate(self._tar, start=1):
            if count > self._limits.entries:
                _refuse(member.name, f"is entry {count}; at most {self._limits.entries} are allowed")
            path = self._checked(member)
            if path is None:
                continue
            self._write(member, path)
        self._lift_single_folder()

    def _checked(self, member: tarfile.TarInfo) -> PurePosixPath | None:
        name = member.name
        if len(name) > self._limits.path:
            _refuse(f"{name[:60]}…", f"has a path of {len(name)} characters; at most {self._limits.path} are allowed")
        if "\0" in name or "\\" in name:
            _refuse(repr(name), "has a character in its path that no package needs")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            _refuse(name, "leads out of the package")
        if len(path.parts) > self._limits.depth:
            _refuse(name, f"lies {len(path.parts)} folders deep; at most {self._limits.depth} are allowed")
        if member.isdir():
            return None
        if not member.isreg():
            _refuse(name, "is neither a file nor a folder (a link or a device)")
        if any(part in JUNK for part in path.parts):
            return None
        if str(path) in self._seen:
            _refuse(name, "stands twice in the archive")
        self._seen.add(str(path))
        return path

    def _write(self, member: tarfile.TarInfo, path: PurePosixPath) -> None:
        source = self._tar.extractfile(member)
        if source is None:
            _refuse(member.name, "has no content")
        target = self._target.joinpath(*path.parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with source, target.open("xb") as out:
                self._copy(member, source, out)
        except (FileExistsError, NotADirectoryError):
            _refuse(member.name, "is a file where the archive has a folder as well")
        target.chmod(0o755 if member.mode & 0o111 else 0o644)

    def _copy(self, member: tarfile.TarInfo, source: IO[bytes], out: IO[bytes]) -> None:
        size = 0
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            self._total += len(chunk)
            if size > self._limits.file:
                _refuse(member.name, f"is larger than {self._limits.file} bytes")
            if self._total > self._limits.unpacked:
                _refuse(member.name, f"brings the package over {self._limits.unpacked} bytes unpacked")
            if self._total > self._limits.ratio_floor and self._total > self._packed * self._limits.ratio:
                _refuse(member.name, f"unpacks to more than {self._limits.ratio} times the archive's size")
            out.write(chunk)
        if size != member.size:
            _refuse(member.name, f"is cut off after {size} of {member.size} bytes")

    def _lift_single_folder(self) -> None:
        if (self._target / "package.yaml").exists():
            return
        children = list(self._target.iterdir())
        if len(children) != 1 or not children[0].is_dir():
            return
        top = children[0].rename(self._target / ".lifting")
        for child in top.iterdir():
            child.rename(self._target / child.name)
        top.rmdir()


def _refuse(entry: str, problem: str) -> NoReturn:
    raise PermanentError(
        Reason.ARCHIVE_REJECTED,
        f"the archive is refused: {entry} {problem}",
        hint="pack the package again with `windlass package pack`",
        actor=Actor.AUTHOR,
    )
