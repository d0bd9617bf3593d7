"""The token flow of registries: a real registry that trusts a token service, and logins of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.packages import package_yaml, write_tree
from support.registry import PASSWORD, USER, RunningRegistry, registry
from support.token_service import REFRESH, TokenService
from windlass.adapters.packages.cache.store import PackageStore
from windlass.adapters.packages.sources.push import push
from windlass.adapters.packages.sources.registry import Registry
from windlass.adapters.packages.sources.transport import FetchLimits, connected
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.packages.model import Source
from windlass.domain.packages.registry_login import Login

SOURCE = Source(repository="corp", package="webapp", version="1.0.0")
PATH = "tokens/a"
SCOPE = f"repository:{PATH}/webapp:pull"


@pytest.fixture(scope="module")
def tokened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A registry that takes tokens only, with one package in it."""
    with registry(tmp_path_factory.mktemp("tokened"), tokens=True) as running:
        yield running


@pytest.fixture
async def service(tokened: RunningRegistry, tmp_path: Path) -> TokenService:
    """The token service as shipped, and the package pushed with its help."""
    service = tokened.tokens
    assert service is not None
    service.grants, service.expired, service.answer = True, 0, None
    root = write_tree(tmp_path / "webapp", {"package.yaml": package_yaml(), "templates/a.yaml": "x"})
    await push(tokened.repository(PATH), root)
    service.asked.clear()
    return service


async def refused(running: RunningRegistry, store: PackageStore, login: Login | None) -> PermanentError:
    access = replace(running.access, login=login)
    with pytest.raises(PermanentError) as raised:
        await store.resolve(running.repository(PATH, access), SOURCE)
    assert (raised.value.reason, raised.value.actor) == (Reason.UNAUTHORIZED, Actor.ADMIN)
    for secret in (PASSWORD, REFRESH, "secret words", "eyJ"):
        assert secret not in str(raised.value)
    return raised.value


async def test_user_and_password_buy_a_token_for_what_is_wanted(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    artifact = await store.resolve(tokened.repository(PATH), SOURCE)
    assert await store.ensure(tokened.repository(PATH), artifact)
    assert service.asked == [("GET", SCOPE, USER)]


async def test_a_refresh_token_buys_one_too(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    access = replace(tokened.access, login=Login(identity=REFRESH))
    assert (await store.resolve(tokened.repository(PATH, access), SOURCE)).version == "1.0.0"
    assert service.asked == [("POST", SCOPE, USER)]


async def test_a_token_of_our_own_is_sent_as_it_is(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    access = replace(tokened.access, login=Login(token=service.token([SCOPE])))
    assert (await store.resolve(tokened.repository(PATH, access), SOURCE)).version == "1.0.0"
    assert service.asked == []


@pytest.mark.parametrize(
    ("login", "says"),
    [
        (Login(username=USER, password="wrong"), "the login is not accepted"),
        (Login(identity="wrong"), "the login is not accepted"),
        (None, "no login was given"),
    ],
    ids=["password", "refresh", "none"],
)
async def test_a_login_that_the_service_refuses(
    tokened: RunningRegistry, service: TokenService, store: PackageStore, login: Login | None, says: str
) -> None:
    error = await refused(tokened, store, login)
    assert says in error.message
    assert "secretRef" in error.hint
    assert len(service.asked) == 1


async def test_a_token_that_does_not_allow_the_package_names_what_is_missing(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    service.grants = False
    error = await refused(tokened, store, tokened.access.login)
    assert f"does not allow {SCOPE}" in error.message
    assert "right" in error.hint


async def test_a_token_that_has_run_out_when_it_comes(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    service.expired = 1
    error = await refused(tokened, store, tokened.access.login)
    assert "does not take the token" in error.message
    assert "clocks" in error.hint
    assert (await store.resolve(tokened.repository(PATH), SOURCE)).version == "1.0.0"


async def test_a_token_of_our_own_that_has_run_out(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    service.expired = 1
    error = await refused(tokened, store, Login(token=service.token([SCOPE])))
    assert "does not take the token of secretRef" in error.message
    assert "new one" in error.hint


@asynccontextmanager
async def client(running: RunningRegistry) -> AsyncIterator[Registry]:
    base = f"https://{running.host}"
    async with connected(
        where="test", origin=base, access=running.access, insecure=False, limits=FetchLimits()
    ) as transport:
        yield Registry(transport, base, running.access.login)


async def test_a_token_that_runs_out_on_the_way_is_renewed(
    tokened: RunningRegistry, service: TokenService, tmp_path: Path
) -> None:
    name = f"{PATH}/webapp"
    async with client(tokened) as reading:
        manifest = await reading.manifest(name, "1.0.0")
        assert manifest is not None
        service.expired = 1
        reading._authorization[SCOPE] = f"Bearer {service.token([SCOPE])}"
        await reading.fetch(name, manifest.layers[0], tmp_path / "a.tgz", limit=1 << 20)
        assert (tmp_path / "a.tgz").stat().st_size == manifest.layers[0].size
        service.expired = 1
        reading._authorization[SCOPE] = f"Bearer {service.token([SCOPE])}"
        assert await reading.tags(name) == ["1.0.0"]


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"token": 5}', b"<html>"])
async def test_a_service_that_sends_no_token_may_come_to_its_senses(
    tokened: RunningRegistry, service: TokenService, store: PackageStore, answer: bytes
) -> None:
    service.answer = answer
    with pytest.raises(TransientError, match="sends no token") as raised:
        await store.resolve(tokened.repository(PATH), SOURCE)
    assert raised.value.reason is Reason.DOWNLOAD_FAILED


async def test_a_scan_does_without_the_catalog_that_most_registries_keep_to_themselves(
    tokened: RunningRegistry, service: TokenService, store: PackageStore
) -> None:
    [offer] = await store.scan(tokened.repository(PATH), ["webapp"])
    assert (offer.name, offer.versions) == ("webapp", ("1.0.0",))
    assert ("GET", "registry:catalog:*", USER) in service.asked
