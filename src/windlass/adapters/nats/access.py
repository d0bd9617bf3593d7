"""Where NATS is, who we are, and whom we trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
        if sum(ways) > 1 or not self.servers:
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                "NATS access needs a server, and at most one of user, token, credentials and nkey_seed",
                hint="set NATS_URL, and one login",
                actor=Actor.ADMIN,
            )


def access_from(env: Mapping[str, str]) -> NatsAccess:
    """Return the access that environment variables name: those of the `nats` command.

    NATS_URL (several by comma), NATS_USER with NATS_PASSWORD or NATS_PASSWORD_FILE, NATS_TOKEN, NATS_CREDS, NATS_NKEY,
    NATS_CA, NATS_CERT with NATS_KEY.

    Raises:
        PermanentError: VALIDATION_FAILED (actor admin), NATS_URL is missing, two logins are named, or a file
            cannot be read.
    """
    try:
        password = Path(env["NATS_PASSWORD_FILE"]).read_text().strip() if env.get("NATS_PASSWORD_FILE") else ""
        authorities = Path(env["NATS_CA"]).read_text() if env.get("NATS_CA") else None
    except OSError as error:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"NATS access: {error}",
            hint="correct NATS_PASSWORD_FILE and NATS_CA",
            actor=Actor.ADMIN,
        ) from error
    return NatsAccess(
        servers=[url.strip() for url in env.get("NATS_URL", "").split(",") if url.strip()],
        user=env.get("NATS_USER", ""),
        password=env.get("NATS_PASSWORD", "") or password,
        token=env.get("NATS_TOKEN", ""),
        credentials=Path(env["NATS_CREDS"]) if env.get("NATS_CREDS") else None,
        nkey_seed=Path(env["NATS_NKEY"]) if env.get("NATS_NKEY") else None,
        authorities=authorities,
        certificate=(Path(env["NATS_CERT"]), Path(env["NATS_KEY"])) if env.get("NATS_CERT") else None,
    )
