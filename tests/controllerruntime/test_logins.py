"""Every way to log in to NATS that the documentation names, against a real server; and files that do not do."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nkeys
import pytest
from controllerruntime.following import following

from support.nats import NatsServer, nats_server
from support.nats_accounts import Trust, new_key, new_user
from support.tls import Identity, identity
from support.waiting import eventually
from windlass.adapters.nats.access import NatsAccess, access_from
from windlass.adapters.nats.connection import connected
from windlass.adapters.nats.entities import BucketEntities, ensure_bucket
from windlass.domain.errors import Actor, PermanentError, Reason

WITHIN = 30.0
SECRET = "hunter2"


async def works(access: NatsAccess, bucket: str = "routes") -> None:
    """Log in, write, and follow."""
    async with connected(access) as connection:
        await ensure_bucket(connection, bucket)
        entities = BucketEntities(connection, bucket)
        await entities.put("a", {"n": 1})
        async with following(entities) as notes:
            await eventually(lambda: notes.pictures, WITHIN)
            assert notes.last_keys == {"a"}


async def refusal(access: NatsAccess) -> PermanentError:
    with pytest.raises(PermanentError) as caught:
        async with asyncio.timeout(WITHIN), connected(access):
            pass
    assert caught.value.actor is Actor.ADMIN
    return caught.value


async def last(stream: AsyncIterator[object]) -> None:
    """Return when there is no more."""
    async for _ in stream:
        pass


def at(server: NatsServer, **env: str | Path) -> NatsAccess:
    """Return what an operator reads of its environment."""
    return access_from({"NATS_URL": f"nats://127.0.0.1:{server.port}", **{name: str(one) for name, one in env.items()}})


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory, trust: Trust) -> Iterator[NatsServer]:
    """A server that trusts an operator's accounts."""
    with nats_server(tmp_path_factory.mktemp("nats"), more=trust.server) as running:
        yield running


async def test_a_credentials_file(accounts: NatsServer, trust: Trust, tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(trust.user())
    await works(at(accounts, NATS_CREDS=file))
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    await works(at(accounts, NATS_CREDS=file))


async def test_credentials_of_somebody_else_are_refused(accounts: NatsServer, tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(Trust().user())
    error = await refusal(at(accounts, NATS_CREDS=file))
    assert error.reason is Reason.FORBIDDEN


async def test_credentials_that_expire_end_the_connection_for_good(
    accounts: NatsServer, trust: Trust, tmp_path: Path
) -> None:
    """The operator ends with it, and is started again with the file that is there then."""
    file = tmp_path / "user.creds"
    file.write_text(trust.user(expires=3))
    async with connected(at(accounts, NATS_CREDS=file)) as connection:
        await ensure_bucket(connection, "routes")
        errors: list[Exception] = []
        stream = BucketEntities(connection, "routes").follow(errors.append)
        await anext(stream)
        with pytest.raises(PermanentError, match=r"the connection to .* is closed"):
            await asyncio.wait_for(last(stream), WITHIN)
    file.write_text(trust.user())
    await works(at(accounts, NATS_CREDS=file))


async def test_an_nkey(tmp_path: Path) -> None:
    user = new_user()
    seed = tmp_path / "user.nk"
    seed.write_text(f"{user.seed}\n")
    with nats_server(tmp_path / "nats", more={"authorization": {"users": [{"nkey": user.public}]}}) as server:
        await works(at(server, NATS_NKEY=seed))
        seed.write_text(new_user().seed)
        error = await refusal(at(server, NATS_NKEY=seed))
        assert error.reason is Reason.FORBIDDEN


async def test_a_token(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats", more={"authorization": {"token": SECRET}}) as server:
        await works(at(server, NATS_TOKEN=SECRET))
        assert (await refusal(at(server, NATS_TOKEN="other"))).reason is Reason.FORBIDDEN


@pytest.fixture(scope="module")
def authority() -> Identity:
    return identity("authority")


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory, authority: Identity) -> Iterator[NatsServer]:
    """A server that knows its users by their certificates."""
    folder = tmp_path_factory.mktemp("nats")
    server = identity("server", authority)
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "tls.crt").write_bytes(server.certificate_pem)
    (folder / "tls.key").write_bytes(server.key_pem)
    tls = {
        "cert_file": str(folder / "tls.crt"),
        "key_file": str(folder / "tls.key"),
        "ca_file": str(folder / "ca.crt"),
        "verify_and_map": True,
    }
    with nats_server(folder, more={"tls": tls, "authorization": {"users": [{"user": "robot"}]}}) as running:
        yield running


def with_certificate(server: NatsServer, folder: Path, authority: Identity, one: Identity) -> NatsAccess:
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "robot.crt").write_bytes(one.certificate_pem)
    (folder / "robot.key").write_bytes(one.key_pem)
    return at(server, NATS_CA=folder / "ca.crt", NATS_CERT=folder / "robot.crt", NATS_KEY=folder / "robot.key")


async def test_a_client_certificate(mutual: NatsServer, authority: Identity, tmp_path: Path) -> None:
    await works(with_certificate(mutual, tmp_path, authority, identity("robot", authority)))


@pytest.mark.parametrize("who", ["nobody the server knows", "signed by another", "without one"])
async def test_a_client_certificate_that_does_not_do(
    mutual: NatsServer, authority: Identity, tmp_path: Path, who: str
) -> None:
    name, issuer = ("stranger", authority) if who.startswith("nobody") else ("robot", identity("other"))
    access = with_certificate(mutual, tmp_path, authority, identity(name, issuer))
    if who == "without one":
        access = dataclasses.replace(access, certificate=None)
    error = await refusal(access)
    assert error.reason is Reason.FORBIDDEN


BAD = {
    "nothing": b"",
    "a JWT without an end": b"-----BEGIN NATS USER JWT-----\nabc",
    "a seed only": b"-----BEGIN USER NKEY SEED-----\nSUAB\n------END USER NKEY SEED------\n",
    "no text": b"\xff\xfe\x00",
    "another secret": SECRET.encode(),
}


@pytest.mark.parametrize("variable", ["NATS_CREDS", "NATS_NKEY"])
@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
async def test_a_login_file_that_holds_something_else_is_named(tmp_path: Path, variable: str, content: bytes) -> None:
    file = tmp_path / "login"
    file.write_bytes(content)
    error = await refusal(access_from({"NATS_URL": "nats://127.0.0.1:1", variable: str(file)}))
    assert error.reason is Reason.VALIDATION_FAILED
    assert str(file) in error.message
    assert SECRET not in str(error)


async def test_a_seed_that_is_not_a_users_is_named(tmp_path: Path) -> None:
    file = tmp_path / "seed"
    file.write_text(new_key(nkeys.PREFIX_BYTE_ACCOUNT).seed)
    error = await refusal(access_from({"NATS_URL": "nats://127.0.0.1:1", "NATS_NKEY": str(file)}))
    assert "no NKey seed of a user" in error.message


@pytest.mark.parametrize(
    "env",
    [
        {"NATS_CREDS": "/nowhere"},
        {"NATS_NKEY": "/nowhere"},
        {"NATS_CERT": "/nowhere", "NATS_KEY": "/nowhere"},
    ],
)
async def test_a_file_that_is_not_there_is_named(env: dict[str, str]) -> None:
    error = await refusal(access_from({"NATS_URL": "nats://127.0.0.1:1", **env}))
    assert error.reason is Reason.VALIDATION_FAILED
    assert "/nowhere cannot be read: No such file" in error.message


async def test_certificates_that_are_none_are_named(tmp_path: Path, authority: Identity) -> None:
    file, key = tmp_path / "file", tmp_path / "key"
    file.write_bytes(authority.certificate_pem)
    key.write_text(SECRET)
    env = {"NATS_URL": "nats://127.0.0.1:1"}
    error = await refusal(access_from({**env, "NATS_CERT": str(file), "NATS_KEY": str(key)}))
    assert f"{file} and {key} are no certificate and its key" in error.message
    error = await refusal(access_from({**env, "NATS_CA": str(key)}))
    assert "NATS_CA" in error.hint
