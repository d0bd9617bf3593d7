from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.packages import entry, package_yaml, tar_bytes, tgz_of, write_tgz, write_tree
from windlass.adapters.packages.format.digest import digest_of
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.format.unpack import unpack
from windlass.domain.errors import Actor, PermanentError, Reason

DEFINITION = entry("package.yaml", package_yaml().encode())


def unpacked(archive: Path, limits: Limits | None = None) -> Path:
    target = archive.parent / "target"
    target.mkdir()
    return unpack(archive, target, limits or Limits())


def refused(archive: Path, limits: Limits | None = None) -> str:
    with pytest.raises(PermanentError) as caught:
        unpacked(archive, limits)
    assert caught.value.reason is Reason.ARCHIVE_REJECTED
    assert caught.value.actor is Actor.AUTHOR
    return caught.value.message


def outside(folder: Path) -> set[str]:
    """What lies beside the target and the archive: nothing may."""
    return {path.name for path in folder.iterdir()} - {"a.tgz", "target"}


def test_files_modes_and_the_folder_around_them(tmp_path: Path) -> None:
    hook = entry("webapp/hooks/a.sh", b"#!/bin/sh\n", mode=0o6755)
    root = unpacked(write_tgz(tmp_path / "a.tgz", [entry("webapp/package.yaml", b"x"), hook]))
    assert root.name == "webapp"
    assert (root / "package.yaml").read_bytes() == b"x"
    assert (root / "hooks/a.sh").stat().st_mode & 0o7777 == 0o555, "set-user-id bits are dropped"
    assert (root / "package.yaml").stat().st_mode & 0o7777 == 0o444


def test_folder_and_archives_of_it_have_one_digest(tmp_path: Path) -> None:
    files = {"package.yaml": package_yaml(), "hooks/a.sh": "x", "templates/ü.yaml": "y", ".git/config": "secret"}
    folder = write_tree(tmp_path / "webapp", files, executable=["hooks/a.sh"])
    digests = {digest_of(folder)}
    for number, top in enumerate(("", "webapp")):
        archive = tgz_of(tmp_path / str(number) / "a.tgz", folder, top=top)
        digests.add(digest_of(unpacked(archive)))
    assert len(digests) == 1
    (folder / "hooks/a.sh").chmod(0o644)
    assert digest_of(folder) not in digests, "whether a file can be run counts"


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        (entry("../evil"), "leads out of"),
        (entry("a/../../evil"), "leads out of"),
        (entry("/etc/evil"), "leads out of"),
        (entry("..\\evil"), "character"),
        (entry("a\nb"), "character"),
        (entry("\x1b[2Jx"), "character"),
        (entry("l", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link"),
        (entry("l", type=tarfile.SYMTYPE, linkname="package.yaml"), "a link"),
        (entry("l", type=tarfile.LNKTYPE, linkname="package.yaml"), "a link"),
        (entry("d", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "a device"),
        (entry("d", type=tarfile.BLKTYPE), "a device"),
        (entry("p", type=tarfile.FIFOTYPE), "a device"),
        (entry("package.yaml", b"other"), "twice"),
        (entry("./package.yaml", b"other"), "twice"),
        (entry("package.yaml/x"), "a folder as well"),
        (entry("n" * 300), "name of more than 255 bytes"),
        (entry("/".join("abcdefgh" * 5)), "levels deep"),
        (entry("x/" + "/".join(["y" * 100] * 6)), "path of"),
        (entry(".", b"x"), "has no name"),
    ],
)
def test_tricks_are_refused_by_name(tmp_path: Path, hostile: tuple[tarfile.TarInfo, bytes], says: str) -> None:
    message = refused(write_tgz(tmp_path / "a.tgz", [DEFINITION, hostile]))
    assert says in message
    assert message.isprintable()
    assert outside(tmp_path) == set()


def test_a_file_where_a_folder_is(tmp_path: Path) -> None:
    assert "a folder as well" in refused(write_tgz(tmp_path / "a.tgz", [entry("a/b", b"1"), entry("a", b"2")]))


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    raw = tar_bytes([entry("aaaa")], form=tarfile.USTAR_FORMAT)
    header = bytearray(raw)
    header[0:4] = b"a\xff\xfea"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(header)))
    assert "not UTF-8" in refused(tmp_path / "a.tgz")


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(packed=100), "at most 100 are allowed in an archive"),
        (Limits(file=99), "at most 99 are allowed in one file"),
        (Limits(unpacked=250), "over 250 bytes"),
        (Limits(entries=3), "entry 4; at most 3"),
        (Limits(depth=1), "at most 1"),
        (Limits(path=2), "at most 2"),
    ],
)
def test_limits_name_themselves(tmp_path: Path, limits: Limits, says: str) -> None:
    entries = [entry(f"f/{number}", os.urandom(100)) for number in range(5)]
    assert says in refused(write_tgz(tmp_path / "a.tgz", entries), limits)


def test_a_bomb_is_refused_by_its_ratio_before_it_fills_the_disk(tmp_path: Path) -> None:
    archive = write_tgz(tmp_path / "a.tgz", [entry("zeros", bytes(40 << 20))])
    assert archive.stat().st_size < 100_000
    assert "times its size" in refused(archive)
    assert sum(path.stat().st_size for path in (tmp_path / "target").rglob("*")) <= Limits().ratio_floor


def test_a_bomb_in_a_header_never_gets_into_memory(tmp_path: Path) -> None:
    huge = tarfile.TarInfo("././@LongLink")
    huge.type = tarfile.GNUTYPE_LONGNAME
    huge.size = 200 << 20
    archive = tmp_path / "a.tgz"
    with gzip.open(archive, "wb") as out:
        out.write(huge.tobuf(tarfile.GNU_FORMAT))
        for _ in range(200):
            out.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        assert "bytes of headers" in refused(archive)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_endless_headers_before_one_entry(tmp_path: Path) -> None:
    more = tarfile.TarInfo("pax")
    more.type = tarfile.XHDTYPE
    (tmp_path / "a.tgz").write_bytes(gzip.compress(more.tobuf(tarfile.USTAR_FORMAT) * 5000))
    assert "bytes of headers" in refused(tmp_path / "a.tgz")


def test_sparse_files_are_refused(tmp_path: Path) -> None:
    info, _ = entry("sparse")
    info.pax_headers = {"GNU.sparse.size": "999999999", "GNU.sparse.map": "0,0", "GNU.sparse.major": "0"}
    info.pax_headers |= {"GNU.sparse.minor": "1", "GNU.sparse.name": "sparse"}
    assert "sparse" in refused(write_tgz(tmp_path / "a.tgz", [(info, b"")]))


def test_cut_off_anywhere(tmp_path: Path) -> None:
    whole = gzip.compress(tar_bytes([DEFINITION, entry("a", os.urandom(3000))]))
    for number, length in enumerate((0, 1, 9, 20, len(whole) // 2, len(whole) - 9, len(whole) - 1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.tgz").write_bytes(whole[:length])
        assert "not a whole gzipped tar" in refused(folder / "a.tgz"), length


def test_cut_off_between_entries_and_zipped_again(tmp_path: Path) -> None:
    raw = tar_bytes([DEFINITION, entry("a", b"x" * 512)])
    (tmp_path / "a.tgz").write_bytes(gzip.compress(raw[:1024]))
    assert "cut off" in refused(tmp_path / "a.tgz")


def test_a_broken_header_does_not_pass_for_the_end(tmp_path: Path) -> None:
    raw = bytearray(tar_bytes([DEFINITION, entry("a", b"x"), entry("b", b"y")]))
    raw[1024 + 10] ^= 0xFF
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(raw)))
    assert "where one should start" in refused(tmp_path / "a.tgz")


def test_nothing_hides_behind_the_end(tmp_path: Path) -> None:
    raw = tar_bytes([DEFINITION])
    (tmp_path / "a.tgz").write_bytes(gzip.compress(raw + raw))
    assert "after its end" in refused(tmp_path / "a.tgz")


def test_a_wrong_checksum_of_gzip(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(tar_bytes([DEFINITION])))
    whole[-8] ^= 0xFF
    (tmp_path / "a.tgz").write_bytes(bytes(whole))
    assert "CRC" in refused(tmp_path / "a.tgz")


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", b"PK\x03\x04zip", gzip.compress(b"not a tar")],
    ids=["nothing", "text", "zip", "gzip"],
)
def test_other_things_than_archives(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.tgz").write_bytes(content)
    refused(tmp_path / "a.tgz")


def test_junk_is_left_out_however_large(tmp_path: Path) -> None:
    entries = [entry("._package.yaml", b"x"), entry(".git/objects/pack", os.urandom(200_000)), DEFINITION]
    root = unpacked(write_tgz(tmp_path / "a.tgz", entries))
    assert [path.name for path in root.iterdir()] == ["package.yaml"]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_happens_to_the_bytes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any damage gives either a package inside its folder or the one error, never another exception."""
    folder = tmp_path_factory.mktemp("fuzz")
    raw = bytearray(tar_bytes([DEFINITION, entry("a" * 120 + "/é", b"x" * 700), entry("hooks/b", b"y", mode=0o755)]))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    (folder / "a.tgz").write_bytes(gzip.compress(bytes(raw)))
    with contextlib.suppress(PermanentError):
        unpacked(folder / "a.tgz", Limits(unpacked=1 << 20))
    assert outside(folder) == set()


def test_the_disks_own_errors_are_not_the_archives(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "none.tgz", tmp_path, Limits())


def test_reads_what_other_tools_write(tmp_path: Path) -> None:
    """GNU format with long names, and a global header as `git archive` writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0" * 40}) as tar:
        info, content = DEFINITION
        tar.addfile(info, io.BytesIO(content))
    (tmp_path / "a.tgz").write_bytes(gzip.compress(out.getvalue()))
    assert (unpacked(tmp_path / "a.tgz") / "package.yaml").is_file()
    long = "d" * 90 + "/" + "f" * 90
    other = write_tgz(tmp_path / "gnu" / "a.tgz", [DEFINITION, entry(long, b"1")], form=tarfile.GNU_FORMAT)
    assert (unpacked(other) / long).read_bytes() == b"1"
