"""Helm repositories and plain web servers: honest ones, broken ones and hostile ones."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from support.packages import entry, package_yaml, tar_bytes
from support.tls import identity
from support.web_site import LOGIN, Site, archive, packed, redirect, serving
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.format.entries import Limits
from windlass.adapters.packages.sources import helm as source_helm
from windlass.adapters.packages.sources.transport import FetchLimits
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.domain.packages.model import Source
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access, Repository


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


def source(version: str = "1.0.0") -> Source:
    return Source(repository="corp", package="webapp", version=version)


async def refused(store: PackageStore, repository: Repository, version: str = "1.0.0") -> WindlassError:
    with pytest.raises(WindlassError) as raised:
        await store.resolve(repository, source(version))
    assert "secret words" not in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert leftovers(store) == []
    return raised.value


def leftovers(store: PackageStore) -> list[Path]:
    """What is half-written in a store that nothing was ever taken into."""
    cache = store._cache._root
    return [path for path in cache.iterdir() if path.name != ".lock"]


# -- honest ----------------------------------------------------------------------------------------------------------


async def test_an_index_is_resolved_by_range_and_exactly(site: Site, store: PackageStore) -> None:
    site.index("1.0.0", "1.1.0", "1.10.0", "2.0.0-rc.1")
    for wanted, exact in {
        "^1": "1.10.0",
        "1.1.0": "1.1.0",
        "~1.1": "1.1.0",
        "": "1.10.0",
        ">1-0": "2.0.0-rc.1",
    }.items():
        assert (await store.resolve(site.repository(), source(wanted))).version == exact
    [offer] = await store.scan(site.repository(), [])
    assert (offer.name, len(offer.versions)) == ("webapp", 4)


async def test_a_leading_v_is_one_spelling_of_a_version(site: Site, store: PackageStore) -> None:
    site.index("v1.16.1")
    content = gzip.compress(
        tar_bytes([entry("webapp/Chart.yaml", b"{apiVersion: v2, name: webapp, version: v1.16.1}")])
    )
    site.answers["/webapp-v1.16.1.tgz"] = content
    digest = hashlib.sha256(content).hexdigest()
    site.answers["/index.yaml"] = (site.answers["/index.yaml"]).replace(  # type: ignore[union-attr]
        hashlib.sha256(archive("v1.16.1")).hexdigest().encode(), digest.encode()
    )
    artifact = await store.resolve(site.repository(), source("1.16.1"))
    assert (await store.load(artifact.digest)).definition.version == "1.16.1"


async def test_an_index_may_be_json_and_name_addresses_elsewhere(site: Site, other: Site, store: PackageStore) -> None:
    other.answers["/files/a.tgz"] = archive()
    url = f"{other.url}/files/a.tgz"
    site.answers["/index.yaml"] = (
        b'{"entries": {"webapp": [{"version": "1.0.0", "urls": ["%s"]}, {"version": "junk"}, 7]}}' % url.encode()
    )
    listed = site.repository(access=Access(login=LOGIN), archiveHosts=[other.host])
    assert (await store.resolve(listed, source())).version == "1.0.0"
    assert site.asked == [("/index.yaml", LOGIN.basic)]
    assert other.asked == [("/files/a.tgz", "")], "no credentials to another host"


@pytest.mark.parametrize("path", ["/webapp/1.0.0.tgz", "/webapp-1.0.0.tgz"])
async def test_an_archive_by_its_address(site: Site, store: PackageStore, path: str) -> None:
    site.answers[path] = archive()
    repository = site.repository("http")
    artifact = await store.resolve(repository, source())
    assert artifact.version == "1.0.0"
    digest = hashlib.sha256(archive()).hexdigest()
    assert (await store.resolve(repository, source(f"1.0.0@sha256:{digest}"))).digest == artifact.digest
    assert await store.scan(repository, []) == ()
    error = await refused_range(store, repository)
    assert "write an exact version" in str(error)


async def refused_range(store: PackageStore, repository: Repository) -> WindlassError:
    with pytest.raises(PermanentError) as raised:
        await store.resolve(repository, source("^1"))
    return raised.value


async def test_an_address_with_places_for_package_and_version(site: Site, store: PackageStore) -> None:
    site.answers["/download/v1.0.0/webapp.tgz"] = archive()
    repository = site.repository("http", url=f"{site.url}/download/v{{version}}/{{package}}.tgz")
    assert (await store.resolve(repository, source())).version == "1.0.0"


async def test_a_private_ca_and_a_client_certificate(tmp_path: Path, store: PackageStore) -> None:
    authority = identity("authority")
    server, client = identity("server", authority), identity("client", authority)
    for name, content in {
        "crt": server.certificate_pem,
        "key": server.key_pem,
        "ca": authority.certificate_pem,
    }.items():
        (tmp_path / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.verify_mode = ssl.CERT_REQUIRED
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    made.answers["/webapp-1.0.0.tgz"] = archive()
    runner = web.AppRunner(app)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await listening.start()
    try:
        made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        pair = (client.certificate_pem, client.key_pem)
        access = Access(authorities=authority.certificate_pem, certificate=pair)
        repository = made.repository("http", access, insecure=False)
        assert (await store.resolve(repository, source())).version == "1.0.0"
        without = made.repository("http", Access(authorities=authority.certificate_pem), insecure=False)
        with pytest.raises(TransientError):
            await store.resolve(without, source())
        with pytest.raises(PermanentError, match="is not trusted"):
            await store.resolve(made.repository("http", insecure=False), source())
    finally:
        await runner.cleanup()


# -- broken ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (401, PermanentError, Reason.UNAUTHORIZED),
        (403, PermanentError, Reason.UNAUTHORIZED),
        (400, PermanentError, Reason.DOWNLOAD_FAILED),
        (404, PermanentError, Reason.DOWNLOAD_FAILED),
        (429, TransientError, Reason.DOWNLOAD_FAILED),
        (500, TransientError, Reason.DOWNLOAD_FAILED),
        (503, TransientError, Reason.DOWNLOAD_FAILED),
    ],
)
async def test_statuses_of_the_index(
    site: Site, store: PackageStore, status: int, error: type[WindlassError], reason: Reason
) -> None:
    site.answers["/index.yaml"] = status
    found = await refused(store, site.repository(access=Access(login=LOGIN)))
    assert (type(found), found.reason) == (error, reason)


async def test_an_archive_that_is_named_and_not_there(site: Site, store: PackageStore) -> None:
    site.index("1.0.0")
    site.answers["/webapp-1.0.0.tgz"] = 404
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (TransientError, Reason.DOWNLOAD_FAILED)


async def test_a_server_that_is_not_there(store: PackageStore) -> None:
    site = Site(url="http://127.0.0.1:9")
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (TransientError, Reason.DOWNLOAD_FAILED)


async def test_a_server_that_says_nothing(site: Site, tmp_path: Path) -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    site.answers["/index.yaml"] = silent
    for limits in (FetchLimits(idle=0.2), FetchLimits(total=0.2)):
        found = await refused(PackageStore(tmp_path / "store", fetch=limits), site.repository())
        assert (type(found), found.reason) == (TransientError, Reason.DOWNLOAD_FAILED)
        assert "too long" in str(found)


async def test_an_archive_that_breaks_off(site: Site, store: PackageStore) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(archive()[:50])
        assert request.transport is not None
        request.transport.close()
        return response

    site.index("1.0.0")
    site.answers["/webapp-1.0.0.tgz"] = cut
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (TransientError, Reason.DOWNLOAD_FAILED)
    assert "breaks off" in str(found)


async def test_an_archive_with_another_digest(site: Site, store: PackageStore) -> None:
    site.index("1.0.0", digest="0" * 64)
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (PermanentError, Reason.DIGEST_MISMATCH)
    site.index("1.0.0")
    found = await refused(store, site.repository(), f"1.0.0@sha256:{'1' * 64}")
    assert found.reason is Reason.DIGEST_MISMATCH


async def test_an_archive_that_changed_after_it_was_pinned(site: Site, store: PackageStore, tmp_path: Path) -> None:
    site.index("1.0.0")
    artifact = await store.resolve(site.repository(), source())
    changed = packed(entry("webapp/package.yaml", package_yaml(stage="x").encode()))
    site.answers["/webapp-1.0.0.tgz"] = changed
    site.answers["/index.yaml"] = yaml.safe_dump(
        {"entries": {"webapp": [{"version": "1.0.0", "urls": ["webapp-1.0.0.tgz"]}]}}
    ).encode()
    with pytest.raises(PermanentError) as raised:
        await PackageStore(tmp_path / "elsewhere").ensure(site.repository(), artifact)
    assert raised.value.reason is Reason.DIGEST_MISMATCH


# -- hostile ---------------------------------------------------------------------------------------------------------


async def test_a_redirect_keeps_credentials_at_home(site: Site, other: Site, store: PackageStore) -> None:
    site.index("1.0.0")
    other.answers["/there.tgz"] = archive()
    site.answers["/webapp-1.0.0.tgz"] = redirect(f"{other.url}/there.tgz?signature=s3cret")
    await store.resolve(site.repository(access=Access(login=LOGIN), archiveHosts=[other.host]), source())
    assert {authorization for _, authorization in site.asked} == {LOGIN.basic}
    assert other.asked == [("/there.tgz", "")]


@pytest.mark.parametrize("to", ["/index.yaml", "ftp://host/x", "file:///etc/passwd", "", "http://"])
async def test_redirects_that_lead_nowhere(site: Site, store: PackageStore, to: str) -> None:
    site.answers["/index.yaml"] = redirect(to)
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (PermanentError, Reason.DOWNLOAD_FAILED)
    assert len(site.asked) <= 6


async def test_more_bytes_than_allowed(site: Site, tmp_path: Path) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        for _ in range(1000):
            await response.write(b"x" * 65536)
        return response

    site.answers["/webapp-1.0.0.tgz"] = endless
    store = PackageStore(tmp_path / "store", Limits(packed=100_000))
    found = await refused(store, site.repository("http"))
    assert (type(found), found.reason) == (PermanentError, Reason.ARCHIVE_REJECTED)
    site.answers["/index.yaml"] = endless
    small = PackageStore(tmp_path / "small", fetch=FetchLimits(index=100_000))
    found = await refused(small, site.repository())
    assert (type(found), found.reason) == (PermanentError, Reason.ARCHIVE_REJECTED)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"entries: 7",
        b"a: [",
        b"\xff\xfe",
        b"a: \0",
        b"{not json",
        b"[" * 5000,
        b"{" * 5000,
        b"a: !e!x y",
    ],
    ids=repr,
)
async def test_an_index_that_is_none(site: Site, store: PackageStore, text: bytes) -> None:
    site.answers["/index.yaml"] = text
    found = await refused(store, site.repository())
    assert (type(found), found.reason) == (PermanentError, Reason.DOWNLOAD_FAILED)


@pytest.mark.parametrize(
    "text",
    [
        b"a: !!python/object/apply:os.system [x]\nentries: {webapp: []}",
        b"entries: {webapp: []}\n---\nentries: {webapp: [{version: 1.0.0, urls: [a.tgz]}]}",
        b"entries: {webapp: !!python/object/apply:os.system [x]}",
    ],
    ids=["unknown tag", "second document", "unknown tag in what is read"],
)
async def test_an_index_is_read_as_by_helm(site: Site, store: PackageStore, text: bytes) -> None:
    site.answers["/index.yaml"] = text
    assert (await refused(store, site.repository())).reason is Reason.PACKAGE_NOT_FOUND


@pytest.mark.parametrize("read", [False, True])
async def test_aliases_name_and_multiply_nothing(site: Site, store: PackageStore, read: bool) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    if read:
        bomb = "entries:\n" + "".join(f"  {line}\n" for line in bomb.splitlines())
    else:
        bomb += "entries:\n"
    text = f"{bomb}  webapp: [{{version: *a59, urls: *a59, digest: *a59}}]"
    site.answers["/index.yaml"] = text.encode()
    found = await refused(store, site.repository())
    says = "once aliases are expanded" if read else "an anchor that does not exist, or it is in a part that is not read"
    assert (type(found), found.reason) == (PermanentError, Reason.DOWNLOAD_FAILED)
    assert says in found.message


async def test_a_byte_order_mark_is_passed_over(site: Site, store: PackageStore) -> None:
    site.index("1.0.0")
    site.answers["/index.yaml"] = b"\xef\xbb\xbf" + site.answers["/index.yaml"]  # type: ignore[operator]
    assert (await store.resolve(site.repository(), source())).version == "1.0.0"


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("helm", "http://host"),
        ("helm", "https://user:s3cret@host"),
        ("helm", "nonsense"),
        ("oci", "https://host/x"),
        ("ftp", "x"),
    ],
)
async def test_addresses_that_are_refused_before_anything_is_asked(store: PackageStore, kind: str, url: str) -> None:
    repository = Repository(name="corp", spec={"kind": kind, kind: {"url": url}})
    found = await refused(store, repository)
    assert (type(found), found.reason) == (PermanentError, Reason.DOWNLOAD_FAILED)


async def test_the_login_of_a_token_is_a_bearer(site: Site, store: PackageStore) -> None:
    site.index("1.0.0")
    await store.resolve(site.repository(access=Access(login=Login(token="abc"))), source())
    assert site.asked[0] == ("/index.yaml", "Bearer abc")
    assert base64.b64decode(LOGIN.basic.removeprefix("Basic ")) == b"robot:s3cret"


# -- one index for all who ask ---------------------------------------------------------------------------------------


async def test_an_index_is_fetched_once_for_many_exact_versions(tmp_path: Path, site: Site) -> None:
    site.index("1.0.0", "1.1.0")
    store = PackageStore(tmp_path)
    await asyncio.gather(*(store.resolve(site.repository(), source(f"1.{n % 2}.0")) for n in range(20)))
    assert [path for path, _ in site.asked].count("/index.yaml") == 1


async def test_a_version_published_a_moment_ago_is_found(tmp_path: Path, site: Site) -> None:
    site.index("1.0.0")
    store = PackageStore(tmp_path)
    await store.resolve(site.repository(), source("1.0.0"))
    site.index("1.0.0", "1.1.0")
    assert (await store.resolve(site.repository(), source("1.1.0"))).version == "1.1.0"
    site.index("1.0.0", "1.1.0", "1.2.0")
    assert (await store.resolve(site.repository(), source(">=1.0.0"))).version == "1.2.0"


async def test_an_index_that_has_not_changed_is_not_sent_again(tmp_path: Path, site: Site) -> None:
    site.index("1.0.0")
    body = site.answers["/index.yaml"]
    assert isinstance(body, bytes)
    answered: list[int] = []

    async def conditional(request: web.Request) -> web.Response:
        answered.append(304 if request.headers.get("If-None-Match") == '"v1"' else 200)
        return web.Response(status=answered[-1], body=body if answered[-1] == 200 else b"", headers={"ETag": '"v1"'})

    site.answers["/index.yaml"] = conditional
    store = PackageStore(tmp_path)
    for _ in range(3):
        assert await store.versions(site.repository(), "webapp") == ["1.0.0"]
    assert answered == [200, 304, 304]


async def test_an_index_without_an_etag_is_read_once_while_it_stays_the_same(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.index("1.0.0")
    read: list[bytes] = []
    parse = source_helm.parse_helm

    def counted(body: bytes, *limits: Any, **how: Any) -> Any:
        read.append(body)
        return parse(body, *limits, **how)

    monkeypatch.setattr(source_helm, "parse_helm", counted)
    store = PackageStore(tmp_path)
    for _ in range(3):
        await store.versions(site.repository(), "webapp")
    assert len(read) == 1
