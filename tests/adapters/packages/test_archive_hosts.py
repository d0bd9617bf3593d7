"""Whoever writes an index chooses the addresses in it; which hosts a worker asks is decided by the repository."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from yarl import URL

from support.web_site import LOGIN, Site, archive, redirect, serving
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.sources.transport import host_of
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Source
from windlass.ports.packages import Access, Repository

SOURCE = Source(repository="corp", package="webapp", version="1.0.0")


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Site]:
    """Another server: in an attack, one that only the worker reaches."""
    async with serving() as made:
        made.answers["/internal.tgz"] = archive()
        made.answers["/index.yaml"] = b"entries: {}"
        yield made


def pointing_to(site: Site, url: str) -> None:
    site.answers["/index.yaml"] = yaml.safe_dump(
        {"entries": {"webapp": [{"version": "1.0.0", "urls": [url]}]}}
    ).encode()


async def refused(store: PackageStore, repository: Repository) -> PermanentError:
    with pytest.raises(PermanentError) as raised:
        await store.resolve(repository, SOURCE)
    assert raised.value.reason is Reason.HOST_NOT_ALLOWED
    assert raised.value.actor is Actor.ADMIN
    return raised.value


async def test_an_index_may_not_point_to_another_host(site: Site, other: Site, store: PackageStore) -> None:
    pointing_to(site, f"{other.url}/internal.tgz?token=s3cret")
    error = await refused(store, site.repository())
    assert other.asked == []
    assert "add it to spec.helm.archiveHosts" in error.hint
    assert other.host in error.hint
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    "form", ["//{host}/internal.tgz", "http://user:pass@{host}/internal.tgz", "HTTP://{host}/internal.tgz"]
)
async def test_other_spellings_of_another_host(site: Site, other: Site, store: PackageStore, form: str) -> None:
    pointing_to(site, form.format(host=other.host))
    with pytest.raises(PermanentError) as raised:
        await store.resolve(site.repository(), SOURCE)
    assert raised.value.reason in {Reason.HOST_NOT_ALLOWED, Reason.DOWNLOAD_FAILED}
    assert "pass" not in str(raised.value).replace("passed", "")
    assert other.asked == []


async def test_a_redirect_of_an_archive_may_not_leave_the_host(site: Site, other: Site, store: PackageStore) -> None:
    site.index("1.0.0")
    site.answers["/webapp-1.0.0.tgz"] = redirect(f"{other.url}/internal.tgz")
    await refused(store, site.repository(access=Access(login=LOGIN)))
    assert other.asked == []


async def test_a_redirect_of_the_index_may_not_leave_the_host(site: Site, other: Site, store: PackageStore) -> None:
    site.answers["/index.yaml"] = redirect(f"{other.url}/index.yaml")
    await refused(store, site.repository())
    assert other.asked == []


async def test_a_listed_host_may_not_send_on_to_a_third(site: Site, other: Site, store: PackageStore) -> None:
    async with serving() as listed:
        pointing_to(site, f"{listed.url}/a.tgz")
        listed.answers["/a.tgz"] = redirect(f"{other.url}/internal.tgz")
        await refused(store, site.repository(access=Access(login=LOGIN), archiveHosts=[listed.host]))
        assert listed.asked == [("/a.tgz", "")]
    assert other.asked == []


async def test_a_listed_host_gets_no_login(site: Site, other: Site, store: PackageStore) -> None:
    pointing_to(site, f"{other.url}/internal.tgz")
    for hosts in ([other.host], ["*"]):
        other.asked.clear()
        fresh = PackageStore(store._cache._root.parent / f"store-{len(hosts[0])}")
        await fresh.resolve(site.repository(access=Access(login=LOGIN), archiveHosts=hosts), SOURCE)
        assert other.asked == [("/internal.tgz", "")]


async def test_the_same_name_at_another_port_is_another_host(site: Site, other: Site, store: PackageStore) -> None:
    name = site.host.partition(":")[0]
    pointing_to(site, f"{other.url}/internal.tgz")
    await refused(store, site.repository(archiveHosts=[name]))
    assert other.asked == []


async def test_an_answer_cannot_name_hosts(site: Site, other: Site, store: PackageStore) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        headers = {"Location": f"{other.url}/internal.tgz", "Host": other.host, "Refresh": f"0;url={other.url}"}
        return web.Response(status=307, headers=headers)

    site.index("1.0.0")
    site.answers["/webapp-1.0.0.tgz"] = answer
    await refused(store, site.repository())
    assert other.asked == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Charts.Example.com/x", "charts.example.com"),
        ("http://charts.example.com:80/x", "charts.example.com"),
        ("https://charts.example.com:443/x", "charts.example.com"),
        ("https://charts.example.com:8443/x", "charts.example.com:8443"),
        ("http://charts.example.com:443/x", "charts.example.com:443"),
        ("https://user:pass@charts.example.com/x", "charts.example.com"),
        ("https://[2001:db8::1]:8443/x", "[2001:db8::1]:8443"),
        ("https://bücher.example/x", "xn--bcher-kva.example"),
    ],
)
def test_how_hosts_are_named(url: str, host: str) -> None:
    assert host_of(URL(url)) == host
