"""Kubeconfigs that others wrote, read with suspicion, and kubeconfigs that we write.

A kubeconfig can name programs to run, files to read and hosts to connect to. From a Secret only inline credentials and
an https server are taken; everything else is refused by the name of its field. What child processes get is rendered
from the fields that were read, never the original text.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import urlsplit

import yaml

from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.document_limits import Limits
from windlass.domain.text.documents import DocumentError, parse_document

LIMITS: Final = Limits(size=64 * 1024, nodes=10_000, depth=20)
"""Of a kubeconfig; one with several certificates has about 10 KiB."""

_CONTEXT: Final = "target"
_TOP: Final = frozenset({"apiVersion", "kind", "current-context", "clusters", "contexts", "users", "preferences"})
_CLUSTER: Final = frozenset(
    {
        "server",
        "certificate-authority-data",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "proxy-url",
        "disable-compression",
    }
)
_USER: Final = frozenset({"token", "client-certificate-data", "client-key-data"})
_WHY: Final[Mapping[str, str]] = {
    "certificate-authority": "refers to a file; use certificate-authority-data",
    "client-certificate": "refers to a file; use client-certificate-data",
    "client-key": "refers to a file; use client-key-data",
    "tokenFile": "refers to a file; use token",
    "exec": "runs a program; use a token or a client certificate",
    "auth-provider": "runs a plugin; use a token or a client certificate",
    "username": "passwords are not supported; use a token or a client certificate",
    "password": "passwords are not supported; use a token or a client certificate",
    "as": "impersonation is not supported",
    "as-uid": "impersonation is not supported",
    "as-groups": "impersonation is not supported",
    "as-user-extra": "impersonation is not supported",
}


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What kubeconfigs from Secrets may hold beyond inline credentials and an https server.

    Attributes:
        proxy: ``proxy-url``.
        insecure: ``insecure-skip-tls-verify``.
        local: servers on loopback and link-local addresses.
    """

    proxy: bool = False
    insecure: bool = False
    local: bool = False

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """Read the setting: names of attributes, separated by commas; empty allows nothing.

        Raises:
            PermanentError: VALIDATION_FAILED, it names something else.
        """
        names = {name.strip() for name in text.split(",") if name.strip()}
        known = {"proxy", "insecure", "local"}
        if unknown := sorted(names - known):
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"kubeconfigs may not be allowed {', '.join(unknown)}",
                hint=f"name some of {', '.join(sorted(known))}, separated by commas",
                actor=Actor.ADMIN,
            )
        return cls(proxy="proxy" in names, insecure="insecure" in names, local="local" in names)


def read_foreign(text: bytes, where: str, allowed: Allowed) -> ApiAccess:
    """Read a kubeconfig from a Secret.

    Args:
        text: as stored; at most `LIMITS`.
        where: names Secret and key, for messages.
        allowed: what the installation allows.

    Raises:
        PermanentError: KUBECONFIG_INVALID (actor user), names the field that is missing or refused; no value.
    """
    reader = _Reader(where)
    document = reader.document(text)
    reader.only(document, _TOP, "")
    bound = reader.entry(document, "contexts", "context", str(document.get("current-context") or ""))
    cluster_name, user_name = str(bound.get("cluster") or ""), str(bound.get("user") or "")
    cluster = reader.entry(document, "clusters", "cluster", cluster_name)
    user = reader.entry(document, "users", "user", user_name)
    reader.only(cluster, _CLUSTER, f"clusters[{cluster_name}].cluster.")
    reader.only(user, _USER, f"users[{user_name}].user.")
    access = ApiAccess(
        server=reader.server(cluster, allowed),
        ca_pem=reader.pem(cluster, "certificate-authority-data"),
        certificate_pem=reader.pem(user, "client-certificate-data"),
        key_pem=reader.pem(user, "client-key-data"),
        token=reader.text(user, "token"),
        server_name=reader.text(cluster, "tls-server-name"),
        proxy=reader.text(cluster, "proxy-url"),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
    )
    if access.proxy and not allowed.proxy:
        raise reader.refused("proxy-url", "is not allowed by this installation")
    if cluster.get("insecure-skip-tls-verify") and not allowed.insecure:
        raise reader.refused("insecure-skip-tls-verify", "is not allowed by this installation")
    if not access.token and not (access.certificate_pem and access.key_pem):
        raise reader.refused(f"users[{user_name}].user", "has neither a token nor a client certificate with its key")
    return access


def is_local(address: str) -> bool:
    """Say whether an IP address is loopback, link-local or unspecified: reachable from inside this machine only."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast


def render(access: ApiAccess, namespace: str = "") -> str:
    """Return a kubeconfig with one context and inline credentials."""
    cluster: dict[str, Any] = {
        "server": access.server,
        "certificate-authority-data": _base64(access.ca_pem),
        "insecure-skip-tls-verify": access.insecure,
        "tls-server-name": access.server_name,
        "proxy-url": access.proxy,
    }
    user = {
        "token": access.token,
        "client-certificate-data": _base64(access.certificate_pem),
        "client-key-data": _base64(access.key_pem),
    }
    context = {"cluster": _CONTEXT, "user": _CONTEXT, "namespace": namespace}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _CONTEXT,
            "clusters": [{"name": _CONTEXT, "cluster": {key: value for key, value in cluster.items() if value}}],
            "users": [{"name": _CONTEXT, "user": {key: value for key, value in user.items() if value}}],
            "contexts": [{"name": _CONTEXT, "context": {key: value for key, value in context.items() if value}}],
        },
        sort_keys=False,
    )


def with_token(access: ApiAccess, token: str) -> ApiAccess:
    """Return the address of an API server with the credentials of one service account and no others."""
    return replace(
        access,
        certificate_pem="",
        key_pem="",
        token=token,
        token_file="",
        username="",
        password="",
        plugin=None,
        namespace="default",
    )


class _Reader:
    """Reads one kubeconfig; everything that is wrong is refused by name, without any value."""

    def __init__(self, where: str) -> None:
        self._where = where

    def document(self, text: bytes) -> Mapping[str, Any]:
        if len(text) > LIMITS.size:
            raise self._invalid(f"has {len(text)} bytes; at most {LIMITS.size} are read")
        try:
            loaded = parse_document(text, LIMITS)
        except DocumentError as error:
            # Neither its message nor the key that it names: a key may be a secret that is badly indented.
            raise self._invalid(f"cannot be read from line {error.line} on") from None
        return self._mapping(loaded, "it")

    def only(self, node: Mapping[str, Any], known: frozenset[str], prefix: str) -> None:
        for name, value in node.items():
            if name not in known and value not in (None, "", False):
                raise self.refused(f"{prefix}{name}", _WHY.get(str(name), "is not supported"))

    def entry(self, document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
        listed: Any = document.get(section) or []
        if not isinstance(listed, list):
            raise self.refused(section, "must be a list")
        for item in cast("list[Any]", listed):
            one = self._mapping(item, section)
            if one.get("name") == name:
                return self._mapping(one.get(key) or {}, f"{section}[{name}].{key}")
        raise self.refused(section, f"has no entry named {name[:100]!r}")

    def server(self, cluster: Mapping[str, Any], allowed: Allowed) -> str:
        server = self.text(cluster, "server")
        try:
            parts = urlsplit(server)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise self.refused("server", "is not a URL") from None
        if parts.scheme != "https" or not host:
            raise self.refused("server", "must be an https URL")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise self.refused("server", "must hold host, port and path only")
        if not allowed.local and self._names_local(host):
            raise self.refused("server", "is a loopback or link-local address")
        return server.rstrip("/")

    def text(self, node: Mapping[str, Any], key: str) -> str:
        value = node.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or any(ord(letter) < 32 for letter in value):
            raise self.refused(key, "must be one line of text")
        return value

    def pem(self, node: Mapping[str, Any], key: str) -> str:
        try:
            return base64.b64decode(self.text(node, key), validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            raise self.refused(key, "is not base64 of a PEM text") from None

    def refused(self, field: str, why: str) -> PermanentError:
        return self._invalid(f"{field}: {why}")

    @staticmethod
    def _names_local(host: str) -> bool:
        try:
            return is_local(host)
        except ValueError:
            return host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost")

    def _mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.refused(what, "must be a mapping")
        return cast("Mapping[str, Any]", value)

    def _invalid(self, what: str) -> PermanentError:
        return PermanentError(
            Reason.KUBECONFIG_INVALID,
            f"kubeconfig in {self._where}: {what}",
            hint="store a kubeconfig with inline credentials and an https server",
            actor=Actor.USER,
        )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
