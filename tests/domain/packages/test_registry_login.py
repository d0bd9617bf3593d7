"""Logins from Docker's configuration file."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from windlass.domain.packages.registry_login import Login, login_for

HOST = "registry.example.com"


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ROBOT = Login(username="robot", password="s3cret")
ENTRY = {"auth": packed("robot:s3cret")}


@pytest.mark.parametrize(
    ("auths", "host", "login"),
    [
        ({HOST: ENTRY}, HOST, ROBOT),
        ({HOST: {"username": "robot", "password": "s3cret"}}, HOST, ROBOT),
        ({HOST: {"username": "robot", "password": "s3cret", "auth": packed("old:old")}}, HOST, ROBOT),
        ({HOST: {"auth": packed("robot:s3:cret")}}, HOST, Login(username="robot", password="s3:cret")),
        ({HOST: {"auth": packed("robot:s3cret\0\0")}}, HOST, ROBOT),
        ({HOST: {"auth": packed("robot:")}}, HOST, Login(username="robot")),
        ({HOST: {"identitytoken": "i"}}, HOST, Login(identity="i")),
        ({HOST: {"registrytoken": "t"}}, HOST, Login(token="t")),
        ({HOST: {}}, HOST, Login()),
        ({f"https://{HOST}": ENTRY}, HOST, ROBOT),
        ({f"http://{HOST}/v1/": ENTRY}, HOST, ROBOT),
        ({f"{HOST}:5000": ENTRY}, f"{HOST}:5000", ROBOT),
        ({f"{HOST}:5000": ENTRY}, HOST, None),
        ({HOST: ENTRY}, f"{HOST}:5000", None),
        ({"example.com": ENTRY}, HOST, None),
        ({"https://index.docker.io/v1/": ENTRY}, "docker.io", ROBOT),
        ({"docker.io": ENTRY}, "registry-1.docker.io", ROBOT),
        ({}, HOST, None),
    ],
)
def test_the_login_of_a_host(auths: dict[str, Any], host: str, login: Login | None) -> None:
    assert login_for({"auths": auths}, host) == login


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([], "is no mapping"),
        ("text", "is no mapping"),
        ({}, "no mapping `auths`"),
        ({"auths": []}, "no mapping `auths`"),
        ({"auths": {HOST: "s3cret"}}, f"auths.{HOST} is no mapping"),
        ({"auths": {HOST: {"auth": "s3cret!"}}}, f"auths.{HOST}.auth is not base64"),
        ({"auths": {HOST: {"auth": base64.b64encode(b"\xff\xfe:s3cret").decode()}}}, "is not base64"),
        ({"auths": {HOST: {"auth": packed("s3cret")}}}, "is not `user:password`"),
    ],
)
def test_what_is_no_configuration_is_told_without_what_stands_there(config: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        login_for(config, HOST)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"credsStore": "desktop"}, "credsStore"),
        ({"auths": {}, "credsStore": "desktop"}, "credsStore"),
        ({"auths": {HOST: {}}, "credsStore": "desktop"}, "credsStore"),
        ({"credHelpers": {HOST: "ecr-login"}}, f"credHelpers.{HOST}"),
        ({"auths": {"other.example.com": ENTRY}, "credHelpers": {f"https://{HOST}": "gcloud"}}, "credHelpers.https://"),
    ],
)
def test_programs_that_would_know_the_login_are_not_run_and_that_is_said(config: Any, field: str) -> None:
    with pytest.raises(ValueError, match="not run here") as refused:
        login_for(config, HOST)
    assert field in str(refused.value)
    assert f"auths.{HOST}" in str(refused.value)


def test_a_login_in_the_file_counts_beside_programs() -> None:
    helpers = {"credsStore": "desktop", "credHelpers": {HOST: "gcloud", "other.example.com": "x"}}
    assert login_for({"auths": {HOST: ENTRY}, **helpers}, HOST) == ROBOT
    assert login_for({"auths": {}, "credHelpers": {"other.example.com": "x"}}, HOST) is None


def test_what_is_sent_and_what_is_shown() -> None:
    assert ROBOT.authorization == ROBOT.basic == f"Basic {packed('robot:s3cret')}"
    assert Login(username="robot", password="s3cret", token="t").authorization == "Bearer t"
    assert Login().authorization == ""
    assert Login(identity="i").authorization == ""
    shown = repr(Login(username="robot", password="s3cret", token="t0ken", identity="ident"))
    assert [secret for secret in ("s3cret", "t0ken", "ident") if secret in shown] == []
    assert json.dumps(shown).count("robot") == 1
