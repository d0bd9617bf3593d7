"""Login and TLS of NATS, and what the environment says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from controllerruntime.following import following

from support.nats import GUEST, GUEST_PASSWORD, LEAST, LEAST_BUCKET, PASSWORD, USER, NatsServer, nats_server
from support.tls import identity
from support.waiting import eventually
from windlass.adapters.nats.access import NatsAccess, access_from
from windlass.adapters.nats.connection import connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats"), secured=True) as running:
        yield running


async def refusal(access: NatsAccess) -> WindlassError:
    with pytest.raises(WindlassError) as caught:
        async with connected(access):
            pass
    return caught.value


async def test_the_right_login_over_tls_is_let_in(secured: NatsServer) -> None:
    async with connected(secured.access) as connection:
        await ensure_bucket(connection, "routes")
        await ensure_bucket(connection, "routes")
        entities = BucketEntities(connection, "routes")
        await entities.put("a", {"n": 1})
        assert await entities.get("a") is not None
        assert connection.client._transport is not None


@pytest.mark.parametrize(
    "login", [{"password": "wrong"}, {"user": "", "password": ""}, {"user": "", "password": "", "token": "t"}]
)
async def test_a_wrong_login_is_refused_at_once_and_not_repeated_in_the_error(
    secured: NatsServer, login: dict[str, str]
) -> None:
    error = await refusal(dataclasses.replace(secured.access, **login))
    assert isinstance(error, PermanentError)
    assert (error.reason, error.actor) == (Reason.FORBIDDEN, Actor.ADMIN)
    assert "wrong" not in str(error)
    assert PASSWORD not in str(error)


async def test_a_server_of_another_authority_is_not_believed(secured: NatsServer) -> None:
    other = identity("authority").certificate_pem.decode()
    error = await refusal(dataclasses.replace(secured.access, authorities=other))
    assert isinstance(error, PermanentError)
    assert "certificate is not trusted" in str(error)


async def test_nobody_there_is_a_transient_error_that_hides_the_password(secured: NatsServer) -> None:
    error = await refusal(NatsAccess(servers=[f"nats://{USER}:{PASSWORD}@127.0.0.1:1"]))
    assert isinstance(error, TransientError)
    assert error.reason is Reason.API_UNAVAILABLE
    assert PASSWORD not in str(error)
    assert PASSWORD not in repr(secured.access)


async def test_what_this_user_may_not_do_is_said(secured: NatsServer) -> None:
    async with connected(secured.access) as connection:
        await ensure_bucket(connection, "routes")
    access = dataclasses.replace(secured.access, user=GUEST, password=GUEST_PASSWORD)
    async with connected(access) as connection:
        entities = BucketEntities(connection, "routes")
        await entities.list()
        with pytest.raises(PermanentError, match="put routes/a: NATS refuses this user") as caught:
            await entities.put("a", {})
        assert caught.value.reason is Reason.FORBIDDEN


async def test_the_rights_that_the_documentation_names_are_enough(secured: NatsServer) -> None:
    async with connected(secured.access) as connection:
        await ensure_bucket(connection, LEAST_BUCKET)
        await ensure_bucket(connection, "theirs")
    async with connected(dataclasses.replace(secured.access, user=LEAST, password=LEAST)) as connection:
        await ensure_bucket(connection, LEAST_BUCKET)
        entities = BucketEntities(connection, LEAST_BUCKET)
        async with following(entities) as notes:
            await eventually(lambda: notes.pictures, 20)
            version = await entities.create("a", {})
            await entities.update("a", {"n": 1}, version=version)
            assert await entities.get("a") is not None
            assert len(await entities.list()) == 1
            await entities.delete("a")
            await eventually(lambda: len(notes.changes) == 3, 20)
            assert notes.errors == []
        with pytest.raises(WindlassError):
            await BucketEntities(connection, "theirs").put("a", {})


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"NATS_URL": "nats://x", "NATS_USER": "u", "NATS_TOKEN": "t"},
        {"NATS_URL": "nats://x", "NATS_CA": "/nowhere"},
        {"NATS_URL": "nats://x", "NATS_PASSWORD_FILE": "/nowhere"},
        {"NATS_URL": "nats://x", "NATS_PASSWORD": "p"},
        {"NATS_URL": "nats://x", "NATS_CERT": "/c"},
        {"NATS_URL": "nats://x", "NATS_KEY": "/k"},
    ],
)
def test_an_environment_that_does_not_do_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(PermanentError) as caught:
        access_from(wrong)
    assert caught.value.reason is Reason.VALIDATION_FAILED
    assert "NATS_" in caught.value.hint or "/nowhere" in caught.value.message


def test_the_environment_says_it_all(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p\n")
    (tmp_path / "ca").write_text("PEM")
    access = access_from(
        {
            "NATS_URL": "tls://a:1, tls://b:2",
            "NATS_USER": "u",
            "NATS_PASSWORD_FILE": str(tmp_path / "password"),
            "NATS_CA": str(tmp_path / "ca"),
        }
    )
    assert access == NatsAccess(servers=["tls://a:1", "tls://b:2"], user="u", password="p", authorities="PEM")
