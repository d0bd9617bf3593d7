"""Where NATS is, who we are, and whom we trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windlass.adapters.nats.credentials import read
from windlass.domain.errors import Actor, PermanentError, Reason


@dataclass(frozen=True, kw_only=True)
class NatsAccess:
    """Where NATS is and who we are; at most one of the ways to log in.

    Attributes:
        servers: URLs, ``nats://`` or ``tls://``.
        user: with ``password``.
        password: of ``user``.
        token: instead.
        credentials: a ``.creds`` file with JWT and seed, instead.
        nkey_seed: a file with an NKey seed, instead.
        authorities: PEM of the authorities that sign the server's certificate; None for those of the system. Given, the
            connection is TLS whatever the URL says.
        certificate: PEM files with our certificate and its key, where the server asks for one.
    """

    servers: Sequence[str]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: Path | None = None
    nkey_seed: Path | None = None
    authorities: str | None = None
    certificate: tuple[Path, Path] | None = None

    def __post_init__(self) -> None:
        ways = [bool(self.user), bool(self.token), self.credentials is not None, self.nkey_seed is not None]
        if not self.servers:
            raise _unfit("NATS access: no server is named", "set NATS_URL: nats://HOST:4222 or tls://HOST:4222")
        if sum(ways) > 1:
            raise _unfit(
                "NATS access: more than one login is named",
                "set one of NATS_USER, NATS_TOKEN, NATS_CREDS and NATS_NKEY, and unset the others",
            )
        if self.password and not self.user:
            raise _unfit("NATS access: a password is named and no user", "set NATS_USER")


def access_from(env: Mapping[str, str]) -> NatsAccess:
    """Return the access that environment variables name: those of the `nats` command.

    NATS_URL (several by comma), NATS_USER with NATS_PASSWORD or NATS_PASSWORD_FILE, NATS_TOKEN, NATS_CREDS, NATS_NKEY,
    NATS_CA, NATS_CERT with NATS_KEY.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), NATS_URL is missing, two logins are named, half of one
            is, or a file cannot be read.
    """
    password = read(Path(env["NATS_PASSWORD_FILE"])).strip() if env.get("NATS_PASSWORD_FILE") else ""
    authorities = read(Path(env["NATS_CA"])) if env.get("NATS_CA") else None
    certificate, key = env.get("NATS_CERT", ""), env.get("NATS_KEY", "")
    if bool(certificate) != bool(key):
        raise _unfit("NATS access: a certificate and its key come together", "set both NATS_CERT and NATS_KEY")
    return NatsAccess(
        servers=[url.strip() for url in env.get("NATS_URL", "").split(",") if url.strip()],
        user=env.get("NATS_USER", ""),
        password=env.get("NATS_PASSWORD", "") or password,
        token=env.get("NATS_TOKEN", ""),
        credentials=Path(env["NATS_CREDS"]) if env.get("NATS_CREDS") else None,
        nkey_seed=Path(env["NATS_NKEY"]) if env.get("NATS_NKEY") else None,
        authorities=authorities,
        certificate=(Path(certificate), Path(key)) if certificate else None,
    )


def _unfit(what: str, hint: str) -> PermanentError:
    return PermanentError(Reason.VALIDATION_FAILED, what, hint=hint, actor=Actor.ADMIN)
