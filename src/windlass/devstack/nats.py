"""The NATS server of a stack: JetStream on disk, one user, TLS with the stack's own authority."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any, Final

from windlass.devstack.credentials import Credentials
from windlass.devstack.plan import Plan
from windlass.devstack.ports import LOOPBACK

USER: Final = "windlass"
"""Name of the only user."""

_MAX_PAYLOAD: Final = 1024 * 1024  # bytes; the server's default, said because our limits are documented with it


def config_file(folder: Path) -> Path:
    """Path of the server's configuration below the stack's ``folder``; holds the password, mode 0600."""
    return folder / "nats" / "nats.conf"


def password_file(folder: Path) -> Path:
    """Path of the user's password below the stack's ``folder``, mode 0600; made once."""
    return folder / "nats" / "password"


def environment(folder: Path, url: str) -> dict[str, str]:
    """Return the variables by which the `nats` command and operators find and enter the server.

    The password stands in a file: ``NATS_PASSWORD_FILE``.
    """
    return {
        "NATS_URL": url,
        "NATS_USER": USER,
        "NATS_PASSWORD_FILE": str(password_file(folder)),
        "NATS_CA": str(Credentials(folder / "pki").ca),
    }


def write_config(plan: Plan) -> None:
    """Write the configuration of the server, and the password when there is none yet."""
    folder = plan.folder
    config_file(folder).parent.mkdir(mode=0o700, exist_ok=True)
    if not password_file(folder).exists():
        _write(password_file(folder), secrets.token_urlsafe(24))
    pki = Credentials(folder / "pki")
    config: dict[str, Any] = {
        "listen": f"{LOOPBACK}:{plan.ports['nats']}",
        "https": f"{LOOPBACK}:{plan.ports['nats-monitor']}",
        "tls": {"cert_file": str(pki.serving_certificate), "key_file": str(pki.serving_key)},
        "authorization": {"user": USER, "password": password_file(folder).read_text()},
        "jetstream": {"store_dir": str(folder / "nats")},
        "max_payload": _MAX_PAYLOAD,
    }
    # The server reads JSON as its own format.
    _write(config_file(folder), json.dumps(config, indent=2))


def _write(file: Path, text: str) -> None:
    temporary = file.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    temporary.replace(file)
