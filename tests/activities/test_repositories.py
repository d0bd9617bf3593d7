"""What Secrets of every type come to, and what they say when they are of no use."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from support.fake_kube import FakeKube
from windlass.activities.repositories import DOCKER_CONFIG, with_access
from windlass.contracts.repositories import PackageRepository
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import API_VERSION, SYSTEM_NAMESPACE
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access

HOST = "registry.example.com"
AUTH = base64.b64encode(b"robot:s3cret").decode()
ROBOT = Login(username="robot", password="s3cret")
BASIC, DOCKER = "kubernetes.io/basic-auth", "kubernetes.io/dockerconfigjson"


def docker(**config: Any) -> dict[str, bytes]:
    return {DOCKER_CONFIG: json.dumps(config).encode()}


async def access(type_: str, data: dict[str, bytes]) -> Access:
    kube = FakeKube()
    kube.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": type_,
            "metadata": {"name": "login", "namespace": SYSTEM_NAMESPACE},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
    )
    return (await with_access(kube.get, corp())).access


def corp() -> PackageRepository:
    oci = {"url": f"oci://{HOST}/packages", "secretRef": {"name": "login"}}
    document = {"apiVersion": API_VERSION, "kind": "PackageRepository", "metadata": {"name": "corp"}}
    return PackageRepository.model_validate({**document, "spec": {"kind": "oci", "oci": oci}})


@pytest.mark.parametrize(
    ("type_", "data", "login"),
    [
        (BASIC, {"username": b"robot", "password": b"s3cret"}, ROBOT),
        (BASIC, {"password": b"s3cret"}, Login(password="s3cret")),
        ("Opaque", {"username": b"robot", "password": b"s3cret"}, ROBOT),
        ("Opaque", {"token": b"t0ken"}, Login(token="t0ken")),
        (DOCKER, docker(auths={HOST: {"auth": AUTH}}), ROBOT),
        (DOCKER, docker(auths={HOST: {"identitytoken": "i"}}), Login(identity="i")),
        (DOCKER, docker(auths={HOST: {"auth": AUTH}}, credsStore="desktop"), ROBOT),
    ],
)
async def test_secrets_of_every_type_hold_a_login(type_: str, data: dict[str, bytes], login: Login) -> None:
    assert (await access(type_, data)).login == login


@pytest.mark.parametrize(
    ("type_", "data", "says"),
    [
        (BASIC, {}, "keys username and password: are missing"),
        (BASIC, {"username": b"\xff", "password": b"s3cret"}, "key username: is not UTF-8"),
        (DOCKER, {DOCKER_CONFIG: b"s3cret"}, "is not JSON"),
        (DOCKER, docker(auths={"other.example.com": {"auth": AUTH}}), f"has no login for {HOST}"),
        (DOCKER, docker(auths={HOST: {"auth": "s3cret!"}}), "is not base64"),
        (DOCKER, docker(credsStore="desktop"), f"write the login itself to auths.{HOST}"),
        (
            DOCKER,
            docker(auths={}, credHelpers={HOST: "gcloud"}),
            f"the program of credHelpers.{HOST}, which",
        ),
    ],
)
async def test_a_secret_of_no_use_says_why_and_who_must_act(type_: str, data: dict[str, bytes], says: str) -> None:
    with pytest.raises(PermanentError) as refused:
        await access(type_, data)
    assert (refused.value.reason, refused.value.actor) == (Reason.UNAUTHORIZED, Actor.ADMIN)
    assert says in refused.value.message
    assert f"Secret login in {SYSTEM_NAMESPACE}" in refused.value.message
    assert "s3cret" not in str(refused.value)


async def test_a_secret_that_is_missing_may_still_come() -> None:
    with pytest.raises(TransientError, match="there is no Secret login") as refused:
        await with_access(FakeKube().get, corp())
    assert refused.value.reason is Reason.SECRET_NOT_FOUND
