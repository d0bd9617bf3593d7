"""Packages from a real registry, with login and private CA."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from support.packages import package_yaml, write_tree
from support.registry import RunningRegistry
from support.tls import identity
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.sources.push import Pushed, push
from windlass.devstack.programs.build import ensure_tools
from windlass.devstack.programs.catalog import TOOLS
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.domain.packages.model import Artifact, Source
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access


def source(version: str, package: str = "webapp") -> Source:
    return Source(repository="corp", package=package, version=version)


def package(root: Path, version: str, text: str = "x") -> Path:
    files: dict[str, str | bytes] = {
        "package.yaml": package_yaml(version=version),
        "Chart.yaml": yaml.safe_dump({"apiVersion": "v2", "name": "webapp", "version": version}),
        "templates/a.yaml": text,
        "hooks/run.sh": "#!/bin/sh\n",
    }
    return write_tree(root / version / text, files, executable=["hooks/run.sh"])


async def pushed(registry: RunningRegistry, root: Path, version: str, *, path: str, text: str = "x") -> Pushed:
    return await push(registry.repository(path), package(root, version, text))


async def test_a_tag_is_pulled_and_pinned(secured: RunningRegistry, store: PackageStore, tmp_path: Path) -> None:
    there = await pushed(secured, tmp_path, "1.0.0", path="pull/a")
    repository = secured.repository("pull/a")
    artifact = await store.resolve(repository, source("1.0.0"))
    assert artifact == Artifact(source=source("1.0.0"), digest=there.digest, version="1.0.0")
    root = await store.ensure(repository, artifact)
    assert (root / "hooks/run.sh").stat().st_mode & 0o111
    assert (await store.load(artifact.digest)).definition.version == "1.0.0"


async def test_a_digest_names_a_manifest_whatever_the_tag_says_now(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path
) -> None:
    first = await pushed(secured, tmp_path, "1.0.0", path="digest/a")
    second = await pushed(secured, tmp_path, "1.0.0", path="digest/a", text="y")
    repository = secured.repository("digest/a")
    by_digest = await store.resolve(repository, source(f"1.0.0@{first.manifest}"))
    assert (by_digest.digest, by_digest.version) == (first.digest, "1.0.0")
    assert (await store.resolve(repository, source("1.0.0"))).digest == second.digest
    with pytest.raises(TransientError) as refused:
        await store.resolve(repository, source(f"1.0.0@sha256:{'0' * 64}"))
    assert refused.value.reason is Reason.PACKAGE_NOT_FOUND


async def test_a_tag_that_moves_between_plan_and_apply_is_noticed(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path
) -> None:
    await pushed(secured, tmp_path, "1.0.0", path="moved/a")
    repository = secured.repository("moved/a")
    artifact = await store.resolve(repository, source("1.0.0"))
    await pushed(secured, tmp_path, "1.0.0", path="moved/a", text="y")
    elsewhere = PackageStore(tmp_path / "elsewhere")
    with pytest.raises(PermanentError, match="other content under this version") as refused:
        await elsewhere.ensure(repository, artifact)
    assert refused.value.reason is Reason.DIGEST_MISMATCH
    assert elsewhere.cached(artifact.digest) is None


async def test_a_range_takes_the_newest_tag_that_it_admits(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path
) -> None:
    for version in ("1.0.0", "1.2.0+build.5", "1.10.0", "2.0.0-rc.1", "2.0.0"):
        await pushed(secured, tmp_path, version, path="range/a")
    repository = secured.repository("range/a")
    for wanted, exact in {
        "^1": "1.10.0",
        "~1.2": "1.2.0+build.5",
        "*": "2.0.0",
        "<2.0.0-z, >=2-0": "2.0.0-rc.1",
    }.items():
        artifact = await store.resolve(repository, source(wanted))
        assert (wanted, artifact.version) == (wanted, exact)
        assert artifact.source.version == wanted
        await PackageStore(tmp_path / "elsewhere").ensure(repository, artifact)
    assert await store.versions(repository, "webapp") == ["1.0.0", "1.2.0+build.5", "1.10.0", "2.0.0-rc.1", "2.0.0"]
    with pytest.raises(TransientError, match=r"has no webapp \^3; it has .*2\.0\.0"):
        await store.resolve(repository, source("^3"))


async def test_what_is_not_there_is_waited_for(secured: RunningRegistry, store: PackageStore) -> None:
    with pytest.raises(TransientError, match="has no version of that package") as refused:
        await store.resolve(secured.repository("nothing/here"), source("1.0.0"))
    assert refused.value.reason is Reason.PACKAGE_NOT_FOUND


@pytest.mark.parametrize("login", [None, Login(username="robot", password="wrong")], ids=["none", "wrong"])
async def test_without_the_right_login_it_says_who_must_act(
    secured: RunningRegistry, store: PackageStore, login: Login | None
) -> None:
    access = Access(login=login, authorities=secured.access.authorities)
    with pytest.raises(PermanentError) as refused:
        await store.resolve(secured.repository("pull/a", access), source("1.0.0"))
    assert refused.value.reason is Reason.UNAUTHORIZED
    assert refused.value.actor.value == "admin"
    assert "wrong" not in str(refused.value)


async def test_a_certificate_of_an_unknown_authority_is_refused(secured: RunningRegistry, store: PackageStore) -> None:
    for authorities in (b"", identity("stranger").certificate_pem):
        access = Access(login=secured.access.login, authorities=authorities)
        with pytest.raises(PermanentError, match="certificate") as refused:
            await store.resolve(secured.repository("pull/a", access), source("1.0.0"))
        assert "certSecretRef" in refused.value.hint
    broken = Access(login=secured.access.login, authorities=b"no pem")
    with pytest.raises(PermanentError, match="holds no PEM"):
        await store.resolve(secured.repository("pull/a", broken), source("1.0.0"))


async def helm_does(program: Path, *arguments: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(program, *arguments)
    assert await process.wait() == 0


async def test_helm_pulls_what_was_pushed_and_we_pull_what_helm_pushed(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path
) -> None:
    assert secured.authority is not None
    helm = ensure_tools([TOOLS["helm"]], print, os.environ)["helm"].path
    ca = tmp_path / "ca.crt"
    ca.write_bytes(secured.authority.certificate_pem)
    flags = ["--ca-file", str(ca), "--username", "robot", "--password", "s3cret"]
    await pushed(secured, tmp_path, "1.0.0", path="helm/a")
    url = f"oci://{secured.host}/helm/a"
    await helm_does(helm, "pull", f"{url}/webapp", "--version", "1.0.0", *flags, "-d", tmp_path)

    chart = write_tree(
        tmp_path / "plain",
        {
            "Chart.yaml": yaml.safe_dump({"apiVersion": "v2", "name": "plain", "version": "v0.3.0"}),
            "values.yaml": "plain: {a: 1}\n",
            "templates/a.yaml": "",
        },
    )
    await helm_does(helm, "package", chart, "-d", tmp_path)
    await helm_does(helm, "push", tmp_path / "plain-v0.3.0.tgz", url, *flags)
    artifact = await store.resolve(secured.repository("helm/a"), source("0.3.0", "plain"))
    assert artifact.version == "0.3.0"
    found = await store.load(artifact.digest)
    assert (found.definition.name, found.definition.version) == ("plain", "0.3.0")
    assert found.static_values == {"plain": {"a": 1}}


async def test_a_scan_lists_what_is_below_the_path(
    secured: RunningRegistry, store: PackageStore, tmp_path: Path
) -> None:
    repository = secured.repository("scan/a")
    await pushed(secured, tmp_path, "1.0.0", path="scan/a")
    [offer] = await store.scan(repository, ["absent"])
    assert (offer.name, offer.versions) == ("webapp", ("1.0.0",))
    assert await store.scan(repository, []) == [offer]
    await pushed(secured, tmp_path, "1.0.0", path="scan/a", text="moved")
    [moved] = await store.scan(repository, [])
    assert (moved.versions, moved.digest != offer.digest) == (offer.versions, True)
    await pushed(secured, tmp_path, "1.1.0", path="scan/a")
    [grown] = await store.scan(repository, [])
    assert grown.versions == ("1.0.0", "1.1.0")
    assert grown.digest not in {offer.digest, moved.digest}
