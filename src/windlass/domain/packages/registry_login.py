"""Who we are to a repository: what stands in Secrets and in Docker's configuration file.

The format of the file is Docker's (``~/.docker/config.json``), which Kubernetes stores under ``.dockerconfigjson`` in
Secrets of type ``kubernetes.io/dockerconfigjson``. Programs that the file names (``credsStore``, ``credHelpers``) are
never run: a worker has none of them, and a Secret must not be able to start a program.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from windlass.domain.text.documents import is_object

_HUB_NAMES: Final = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


@dataclass(frozen=True, kw_only=True)
class Login:
    """User and password, or a token in their place.

    ``identity`` is a token that only buys other ones (OAuth2 refresh).
    """

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)

    @property
    def authorization(self) -> str:
        """What a web server gets that does not say what it wants: the token if there is one, else user and password."""
        return f"Bearer {self.token}" if self.token else self.basic

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header; empty without user and password."""
        if not self.username and not self.password:
            return ""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def login_for(config: Any, host: str) -> Login | None:
    """Return the login for ``host[:port]`` from Docker's configuration, None if it has none.

    Raises:
        ValueError: the configuration is not of that form; says where, never what stands there.
    """
    if not is_object(config):
        raise ValueError("is no mapping")
    helper = _helper_of(config, host)
    auths = config.get("auths")
    if not is_object(auths) and not (auths is None and helper):
        raise ValueError("has no mapping `auths`")
    for name, entry in (auths or {}).items():
        if _same_host(_host_of(name), host):
            if not is_object(entry):
                raise ValueError(f"auths.{name} is no mapping")
            login = _login(name, entry)
            # Docker leaves an empty entry behind for what it has put into a store.
            if login != Login() or not helper:
                return login
    if helper:
        raise ValueError(
            f"leaves the login for {host} to the program of {helper}, which is not run here; "
            f"write the login itself to auths.{host}, as `docker login` does on a machine without that program"
        )
    return None


def _helper_of(config: Mapping[str, Any], host: str) -> str:
    """Return the field that names a program for this host's login, empty if there is none."""
    helpers = config.get("credHelpers")
    for name in helpers if is_object(helpers) else ():
        if _same_host(_host_of(name), host):
            return f"credHelpers.{name}"
    return "credsStore" if config.get("credsStore") else ""


def _login(name: str, entry: Mapping[str, Any]) -> Login:
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    packed = entry.get("auth")
    if packed and not password:
        try:
            username, colon, password = base64.b64decode(str(packed), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError(f"auths.{name}.auth is not base64") from None
        if not colon:
            raise ValueError(f"auths.{name}.auth is not `user:password`")
    return Login(
        username=username,
        password=password.rstrip("\0"),
        token=str(entry.get("registrytoken") or ""),
        identity=str(entry.get("identitytoken") or ""),
    )


def _host_of(name: str) -> str:
    """Old entries are addresses (``https://index.docker.io/v1/``)."""
    return name.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _same_host(one: str, other: str) -> bool:
    return one == other or (one in _HUB_NAMES and other in _HUB_NAMES)
