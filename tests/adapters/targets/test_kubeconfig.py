"""A kubeconfig from a Secret is foreign data: every field that could do harm is refused by its name."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.kube import kubeconfig as trusted
from windlass.adapters.targets.guard import GuardedResolver, LocalAddressError
from windlass.adapters.targets.kubeconfig import LIMITS, Allowed, is_local, read_foreign, render
from windlass.domain.errors import PermanentError, Reason

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
CLUSTER = {"server": "https://edge.example.org:6443/base", "certificate-authority-data": PEM}
USER = {"token": "t0ken"}
EVERYTHING = Allowed(proxy=True, insecure=True, local=True)


def written(*, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "edge", "user": "me", "namespace": "theirs"}}],
        "clusters": [{"name": "edge", "cluster": {**CLUSTER, **(cluster or {})}}],
        "users": [{"name": "me", "user": USER if user is None else user}],
        **top,
    }
    return yaml.safe_dump(document).encode()


def test_inline_credentials_and_an_https_server_are_taken() -> None:
    access = read_foreign(written(), "Secret edge", Allowed())
    assert (access.server, access.token, access.namespace) == (CLUSTER["server"], "t0ken", "default")
    certificate = read_foreign(written(user={"client-certificate-data": PEM, "client-key-data": PEM}), "x", Allowed())
    assert certificate.key_pem.startswith("-----BEGIN")


BOMB = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 8)
)
"""Seven aliases that stand for twenty million texts."""

ATTACKS: dict[str, bytes] = {
    "exec": written(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}}),
    "auth-provider": written(user={**USER, "auth-provider": {"name": "oidc"}}),
    "tokenFile": written(user={"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}),
    "certificate-authority": written(cluster={"certificate-authority": "/etc/shadow"}),
    "client-certificate": written(user={**USER, "client-certificate": "/etc/shadow"}),
    "client-key": written(user={**USER, "client-key": "/etc/shadow"}),
    "username": written(user={**USER, "username": "u"}),
    "password": written(user={"password": "p"}),
    "as": written(user={**USER, "as": "system:admin"}),
    "as-groups": written(user={**USER, "as-groups": ["system:masters"]}),
    "as-uid": written(user={**USER, "as-uid": "1"}),
    "as-user-extra": written(user={**USER, "as-user-extra": {"a": ["b"]}}),
    "proxy-url": written(cluster={"proxy-url": "http://proxy.example.org"}),
    "insecure-skip-tls-verify": written(cluster={"insecure-skip-tls-verify": True}),
    "server: must be an https URL": written(cluster={"server": "http://edge.example.org"}),
    "server: must hold host": written(cluster={"server": "https://u:p@edge.example.org"}),
    "server: is a loopback": written(cluster={"server": "https://127.0.0.1:6443"}),
    "server: is a loopback or": written(cluster={"server": "https://[::1]:6443"}),
    "server: is a loopback or link-local": written(cluster={"server": "https://169.254.169.254"}),
    "loopback or link-local address": written(cluster={"server": "https://LOCALHOST.:6443"}),
    "server: is a": written(cluster={"server": "https://[::ffff:127.0.0.1]"}),
    "extensions": written(extensions=[{"name": "x"}]),
    "has neither a token nor": written(user={"client-certificate-data": PEM}),
    "contexts": written(contexts=[]),
    "users": written(users="none"),
    "token: must be one line": written(user={"token": "a\nb"}),
    "cannot be read": b"\x00\x01",
    "cannot be read from": BOMB,
    "cannot be read from line 1": b"[" * 1000,
    "at most": b"#" * (LIMITS.size + 1),
}


@pytest.mark.parametrize(("named", "text"), ATTACKS.items(), ids=ATTACKS)
def test_what_could_do_harm_is_refused_by_name(named: str, text: bytes) -> None:
    with pytest.raises(PermanentError) as refused:
        read_foreign(text, "Secret edge in shop, key kubeconfig", Allowed())
    assert refused.value.reason is Reason.KUBECONFIG_INVALID
    assert named in refused.value.message
    assert "Secret edge in shop, key kubeconfig" in refused.value.message
    assert "t0ken" not in str(refused.value)


def test_a_setting_allows_proxies_insecure_servers_and_local_addresses() -> None:
    cluster = {"server": "https://127.0.0.1:1", "proxy-url": "http://p", "insecure-skip-tls-verify": True}
    access = read_foreign(written(cluster=cluster), "x", EVERYTHING)
    assert (access.proxy, access.insecure) == ("http://p", True)


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_in_a_typed_way(text: bytes) -> None:
    with pytest.raises(PermanentError):
        read_foreign(text, "x", Allowed())


def test_what_children_get_is_rendered_from_what_was_read() -> None:
    access = read_foreign(written(), "x", Allowed())
    again = trusted.read(render(access, "shop"))
    assert (again.server, again.token, again.ca_pem) == (access.server, access.token, access.ca_pem)
    assert again.namespace == "shop"


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("169.254.1.1", True),
        ("::1", True),
        ("fe80::1", True),
        ("0.0.0.0", True),  # noqa: S104 - refused, not listened on
        ("10.0.0.1", False),
    ],
)
def test_local_addresses(address: str, local: bool) -> None:
    assert is_local(address) is local


async def test_a_name_of_a_local_address_is_refused_at_every_connect() -> None:
    with pytest.raises(LocalAddressError, match="loopback or link-local"):
        await GuardedResolver().resolve("localhost", 443)


def test_what_an_installation_allows() -> None:
    assert Allowed.parse("") == Allowed()
    assert Allowed.parse("local, proxy") == Allowed(local=True, proxy=True)
    with pytest.raises(PermanentError, match="exec") as caught:
        Allowed.parse("exec,local")
    assert "insecure, local, proxy" in caught.value.hint
