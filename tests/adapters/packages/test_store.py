from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from support.packages import package_yaml, tgz_of, write_tree
from support.waiting import eventually
from windlass.adapters.packages.cache.contents import Cache
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.format.digest import files_of
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources import file as source_file
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.packages.model import Artifact, Source
from windlass.ports.packages import Repository

SOURCE = Source(repository="repo", package="webapp", version="1.0.0")


def files(version: str = "1.0.0", text: str = "x") -> dict[str, str | bytes]:
    return {"package.yaml": package_yaml(version=version), "values.yaml": "a: 1\n", "templates/a.yaml": text}


def version(number: str) -> Source:
    return Source(repository="repo", package="webapp", version=number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in ("1.0.0", "1.1.0"):
        write_tree(tmp_path / "repo/webapp" / number, files(number, number))
    return tmp_path / "repo"


@pytest.fixture
def repository(folder: Path) -> Repository:
    return Repository(name="repo", spec={"kind": "file", "file": {"path": str(folder)}})


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "store")


async def fetched(store: PackageStore, repository: Repository, source: Source = SOURCE) -> Artifact:
    artifact = await store.resolve(repository, source)
    await store.ensure(repository, artifact)
    return artifact


async def test_resolve_ensure_load(store: PackageStore, repository: Repository) -> None:
    artifact = await store.resolve(repository, SOURCE)
    assert store.cached(artifact.digest) is None
    root = await store.ensure(repository, artifact)
    assert root == store.cached(artifact.digest)
    assert root.name == artifact.digest.replace(":", "-")
    package = await store.load(artifact.digest)
    assert (package.definition.name, package.static_values) == ("webapp", {"a": 1})
    assert await store.load(artifact.digest) is package


@pytest.mark.parametrize("place", ["webapp/1.0.0.tgz", "webapp-1.0.0.tgz"])
async def test_archives_have_the_digest_of_the_folder(
    store: PackageStore, repository: Repository, folder: Path, place: str
) -> None:
    from_folder = await store.resolve(repository, SOURCE)
    tgz_of(folder / place, folder / "webapp/1.0.0", top="webapp")
    shutil.rmtree(folder / "webapp/1.0.0")
    assert await store.resolve(repository, SOURCE) == from_folder
    root = await store.ensure(repository, from_folder)
    assert (root / "package.yaml").is_file()
    assert (await store.load(from_folder.digest)).definition.version == "1.0.0"


async def test_what_is_missing_is_named_and_may_still_come(
    store: PackageStore, repository: Repository, folder: Path
) -> None:
    write_tree(folder / "webapp/1.10.0", files("1.10.0"))
    (folder / "webapp/notes").mkdir()
    (folder / "webapp-admin-3.0.0.tgz").write_bytes(b"")
    with pytest.raises(TransientError) as caught:
        await store.resolve(repository, version("9.9.9"))
    assert caught.value.message == "repository repo has no webapp 9.9.9; it has 1.0.0, 1.1.0, 1.10.0"
    assert caught.value.reason is Reason.PACKAGE_NOT_FOUND
    shutil.rmtree(folder)
    with pytest.raises(TransientError, match="there is no folder") as caught:
        await store.resolve(repository, SOURCE)
    assert caught.value.reason is Reason.DOWNLOAD_FAILED


@pytest.mark.parametrize("spec", [{"kind": "oci"}, {"kind": "file"}, {"kind": "file", "file": {"path": "relative"}}])
async def test_a_wrong_repository(store: PackageStore, spec: dict[str, Any]) -> None:
    with pytest.raises(PermanentError, match="repository repo") as caught:
        await store.resolve(Repository(name="repo", spec=spec), SOURCE)
    assert caught.value.reason is Reason.DOWNLOAD_FAILED


@pytest.mark.parametrize(
    ("package", "number"), [("..", "1.0.0"), ("webapp", ".."), ("webapp", "1.0.0/../../x"), ("", "1.0.0"), ("a/b", "1")]
)
async def test_names_never_become_paths_elsewhere(
    store: PackageStore, repository: Repository, package: str, number: str
) -> None:
    with pytest.raises(PermanentError, match=r"spec\.package"):
        await store.resolve(repository, Source(repository="repo", package=package, version=number))


@pytest.mark.parametrize(("field", "value"), [("name", "other"), ("version", "2.0.0")])
@pytest.mark.parametrize("archive", [False, True])
async def test_a_package_is_what_its_place_says(
    store: PackageStore, repository: Repository, folder: Path, field: str, value: str, archive: bool
) -> None:
    (folder / "webapp/1.0.0/package.yaml").write_text(package_yaml(**{field: value}))
    if archive:
        tgz_of(folder / "webapp-1.0.0.tgz", folder / "webapp/1.0.0")
        shutil.rmtree(folder / "webapp/1.0.0")
    with pytest.raises(PermanentError, match=f"package.yaml, {field}: is '{value}'") as caught:
        await store.resolve(repository, SOURCE)
    assert caught.value.reason is Reason.LOAD_FAILED


async def test_a_changed_version_is_noticed(store: PackageStore, repository: Repository, folder: Path) -> None:
    artifact = await store.resolve(repository, SOURCE)
    (folder / "webapp/1.0.0/values.yaml").write_text("a: 2\n")
    with pytest.raises(PermanentError, match="other content") as caught:
        await store.ensure(repository, artifact)
    assert caught.value.reason is Reason.DIGEST_MISMATCH
    assert store.cached(artifact.digest) is None


@pytest.mark.parametrize("trick", ["link", "folder link", "fifo"])
async def test_tricks_in_folders(store: PackageStore, repository: Repository, folder: Path, trick: str) -> None:
    place = folder / "webapp/1.0.0/templates/trick"
    match trick:
        case "fifo":
            os.mkfifo(place)
        case "link":
            place.symlink_to("/etc/passwd")
        case _:
            place.symlink_to("/etc", target_is_directory=True)
    with pytest.raises(PermanentError, match="templates/trick is neither") as caught:
        await store.resolve(repository, SOURCE)
    assert caught.value.reason is Reason.ARCHIVE_REJECTED


def test_a_pipe_that_took_its_place_blocks_nobody(folder: Path) -> None:
    files = files_of(folder / "webapp/1.0.0")
    files[0].path.unlink()
    os.mkfifo(files[0].path)
    with pytest.raises(OSError, match="no file any more"):
        files[0].open()


async def test_limits_hold_for_folders_too(tmp_path: Path, repository: Repository) -> None:
    store = PackageStore(tmp_path / "store", Limits(entries=2))
    with pytest.raises(PermanentError, match="at most 2"):
        await store.resolve(repository, SOURCE)


async def test_content_beyond_the_usual_limits_loads_where_they_were_raised_and_after_they_were_lowered(
    tmp_path: Path, repository: Repository, folder: Path
) -> None:
    write_tree(folder / "webapp/1.0.0", {f"{'d/' * 40}deep.txt": "x"})
    wide = PackageStore(tmp_path / "store", Limits(depth=50))
    artifact = await wide.resolve(repository, SOURCE)
    await wide.ensure(repository, artifact)
    assert (await wide.load(artifact.digest)).definition.version == SOURCE.version
    assert (await PackageStore(tmp_path / "store").load(artifact.digest)).definition.version == SOURCE.version


@pytest.mark.parametrize(
    ("limits", "variable"),
    [
        (Limits(entries=2), "WINDLASS_MAX_PACKAGE_FILES"),
        (Limits(unpacked=2), "WINDLASS_MAX_PACKAGE_MIB"),
        (Limits(packed=2), "WINDLASS_MAX_ARCHIVE_MIB"),
    ],
)
async def test_a_limit_names_the_variable_that_moves_it(
    tmp_path: Path, repository: Repository, folder: Path, limits: Limits, variable: str
) -> None:
    tgz_of(folder / "webapp/1.0.0.tgz", folder / "webapp/1.0.0")
    shutil.rmtree(folder / "webapp/1.0.0")
    with pytest.raises(PermanentError) as refused:
        await PackageStore(tmp_path / "store", limits).resolve(repository, SOURCE)
    assert refused.value.reason is Reason.ARCHIVE_REJECTED
    assert variable in refused.value.hint


async def test_install_up_and_down_and_remove(store: PackageStore, repository: Repository) -> None:
    old, new = [await fetched(store, repository, version(number)) for number in ("1.0.0", "1.1.0")]
    for artifact in (old, new, old):
        link = await store.install("prod.web", artifact.digest)
        assert link.name == "prod.web"
        assert link.resolve() == store.cached(artifact.digest)
    await store.remove("prod.web")
    await store.remove("prod.web")
    assert not link.is_symlink()
    assert store.cached(old.digest) is not None


async def test_install_needs_the_content_and_a_name(store: PackageStore, repository: Repository) -> None:
    with pytest.raises(TransientError) as caught:
        await store.install("prod.web", "sha256:" + "0" * 64)
    assert caught.value.reason is Reason.CHECK_VERSION_FAILED
    artifact = await fetched(store, repository)
    for name in ("", ".", "..", "a.b.c", "../x", "prod.", "Prod.web"):
        with pytest.raises(PermanentError, match="invalid package name"):
            await store.install(name, artifact.digest)
    await store.install("module", artifact.digest)


async def test_a_crash_in_the_middle_of_a_switch(tmp_path: Path, store: PackageStore, repository: Repository) -> None:
    artifact = await fetched(store, repository)
    (tmp_path / "store/deployed").mkdir()
    (tmp_path / "store/deployed/.prod.web").symlink_to("nowhere")
    assert await store.sweep([artifact.digest]) == []
    link = await store.install("prod.web", artifact.digest)
    assert (link / "package.yaml").is_file()
    assert [path.name for path in (tmp_path / "store/deployed").iterdir()] == ["prod.web"]


async def test_sweep_keeps_what_is_in_use(store: PackageStore, repository: Repository, folder: Path) -> None:
    write_tree(folder / "webapp/1.2.0", files("1.2.0", "third"))
    deployed, kept, stale = [await fetched(store, repository, version(f"1.{minor}.0")) for minor in range(3)]
    await store.install("prod.web", deployed.digest)
    await store.load(stale.digest)
    assert await store.sweep([kept.digest]) == [stale.digest]
    assert store.cached(deployed.digest) is not None
    assert store.cached(kept.digest) is not None
    with pytest.raises(TransientError, match="not in the package cache"):
        await store.load(stale.digest)
    await store.remove("prod.web")
    assert set(await store.sweep([])) == {deployed.digest, kept.digest}
    assert [path.name for path in store._cache._root.iterdir()] == [".lock"]


async def test_many_who_want_one_digest_copy_it_once_and_block_nobody(
    store: PackageStore, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Path] = []
    everybody_asked = threading.Event()
    copy = source_file.copy

    def late(found: Path, target: Path, limits: Limits) -> Path:
        copies.append(found)
        assert everybody_asked.wait(10), "the event loop was blocked meanwhile"
        return copy(found, target, limits)

    artifact = await store.resolve(repository, SOURCE)
    monkeypatch.setattr(source_file, "copy", late)
    tasks = [asyncio.create_task(store.ensure(repository, artifact)) for _ in range(50)]
    await eventually(lambda: bool(copies), what="the first has begun")
    everybody_asked.set()
    assert len({await task for task in tasks}) == 1
    assert len(copies) == 1


async def test_stores_of_several_processes_bring_one_digest(tmp_path: Path, repository: Repository) -> None:
    stores = [PackageStore(tmp_path / "store") for _ in range(4)]
    artifact = await stores[0].resolve(repository, SOURCE)
    roots = await asyncio.gather(*(store.ensure(repository, artifact) for store in stores for _ in range(5)))
    assert len(set(roots)) == 1
    assert (await stores[3].load(artifact.digest)).definition.name == "webapp"
    assert len(list((tmp_path / "store/cache").iterdir())) == 2, "the content and the lock, nothing half-made"


async def test_damaged_content_is_dropped_and_fetched_again(tmp_path: Path, repository: Repository) -> None:
    artifact = await fetched(PackageStore(tmp_path / "store"), repository)
    store = PackageStore(tmp_path / "store")
    root = store.cached(artifact.digest)
    assert root is not None
    (root / "values.yaml").chmod(0o644)
    (root / "values.yaml").write_text("a: 666\n")
    with pytest.raises(TransientError, match="was damaged") as caught:
        await store.load(artifact.digest)
    assert caught.value.reason is Reason.CHECK_VERSION_FAILED
    assert store.cached(artifact.digest) is None
    await store.ensure(repository, artifact)
    assert (await store.load(artifact.digest)).static_values == {"a": 1}


async def test_a_digest_from_outside_never_becomes_a_path(store: PackageStore) -> None:
    for digest in ("sha256:../../etc", "", "sha256:" + "A" * 64, "md5:" + "0" * 32):
        with pytest.raises(PermanentError, match="not a content digest"):
            store.cached(digest)


CRASH = """
import sys, time
from pathlib import Path
from windlass.adapters.packages.cache.contents import Cache
def fill(folder):
    (folder / "package.yaml").write_text("half")
    print("filling", flush=True)
    time.sleep(60)
Cache(Path(sys.argv[1])).admit(fill)
"""


def test_a_crash_between_unpack_and_rename_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    cache = Cache(root)
    cache.prepare()
    process = subprocess.Popen([sys.executable, "-c", CRASH, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == "filling\n"
        cache.prepare()
        assert len(list(root.glob(".new-*"))) == 1, "what a living process works on is left alone"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert cache.digests() == []
    assert len(list(root.glob(".new-*"))) == 1
    cache.prepare()
    assert [path.name for path in root.iterdir()] == [".lock"]


async def test_a_failed_fill_leaves_nothing(store: PackageStore, repository: Repository, folder: Path) -> None:
    shutil.rmtree(folder / "webapp/1.0.0")
    (folder / "webapp/1.0.0.tgz").write_bytes(b"not an archive")
    with pytest.raises(PermanentError, match=r"1\.0\.0\.tgz is not a whole gzipped tar"):
        await store.resolve(repository, SOURCE)
    assert [path.name for path in store._cache._root.iterdir()] == [".lock"]


async def test_a_range_takes_the_newest_folder_or_archive(
    store: PackageStore, repository: Repository, folder: Path
) -> None:
    assert (await fetched(store, repository, version("^1"))).version == "1.1.0"
    tgz_of(folder / "webapp-1.2.0.tgz", write_tree(folder.parent / "new", files("1.2.0")), top="webapp")
    artifact = await fetched(store, repository, version("^1"))
    assert (artifact.version, artifact.source.version) == ("1.2.0", "^1")
    assert (await store.load(artifact.digest)).definition.version == "1.2.0"
    [offer] = await store.scan(repository, [])
    assert offer.versions == ("1.0.0", "1.1.0", "1.2.0")
    with pytest.raises(PermanentError, match="knows no digests"):
        await store.resolve(repository, version(f"1.0.0@sha256:{'0' * 64}"))
