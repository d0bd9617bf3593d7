"""Operator, account and user JWTs of NATS, as `nsc` makes them, and the files to log in with."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from dataclasses import dataclass
from typing import Any

import nkeys


@dataclass(frozen=True)
class Key:
    """An NKey."""

    seed: str

    @property
    def public(self) -> str:
        return str(nkeys.from_seed(bytearray(self.seed.encode())).public_key.decode())

    def signs(self, subject: Key, name: str, claims: dict[str, Any], *, expires: float = 0.0) -> str:
        """Return a JWT about ``subject``, signed by this key."""
        body: dict[str, Any] = {
            "iat": int(time.time()),
            "iss": self.public,
            "name": name,
            "sub": subject.public,
            "nats": {"version": 2, **claims},
        }
        if expires:
            body["exp"] = int(time.time() + expires)
        body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
        text = ".".join(_encoded(json.dumps(one).encode()) for one in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
        signature = nkeys.from_seed(bytearray(self.seed.encode())).sign(text.encode())
        return f"{text}.{_encoded(signature)}"


def new_key(prefix: int) -> Key:
    """Make a key; ``prefix`` is one of `nkeys.PREFIX_BYTE_OPERATOR`, ``_ACCOUNT`` and ``_USER``."""
    return Key(nkeys.encode_seed(os.urandom(32), prefix).decode())


def new_user() -> Key:
    """Make the key of a user."""
    return new_key(nkeys.PREFIX_BYTE_USER)


class Trust:
    """An operator with one account that may use JetStream; `server` is its part of a server's configuration."""

    def __init__(self) -> None:
        operator, system = new_key(nkeys.PREFIX_BYTE_OPERATOR), new_key(nkeys.PREFIX_BYTE_ACCOUNT)
        self._account = new_key(nkeys.PREFIX_BYTE_ACCOUNT)
        limits = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1}
        stores = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        about = {
            "SYS": operator.signs(system, "SYS", {"type": "account", "limits": limits}),
            "A": operator.signs(self._account, "A", {"type": "account", "limits": limits | stores}),
        }
        self.server: dict[str, Any] = {
            "operator": operator.signs(operator, "O", {"type": "operator", "system_account": system.public}),
            "system_account": system.public,
            "resolver": "MEMORY",
            "resolver_preload": {system.public: about["SYS"], self._account.public: about["A"]},
        }

    def user(self, *, expires: float = 0.0) -> str:
        """Return the content of a ``.creds`` file of a new user."""
        user = new_user()
        jwt = self._account.signs(
            user, "robot", {"type": "user", "subs": -1, "data": -1, "payload": -1}, expires=expires
        )
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            "************************* IMPORTANT *************************\n"
            "NKEY Seed printed below can be used to sign and prove identity.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
