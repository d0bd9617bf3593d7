"""A real NATS server with JetStream on disk for tests: plain, or with a login and a certificate of a private CA."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.tls import Identity, identity
from support.waiting import eventually_sync
from windlass.adapters.nats.access import NatsAccess

USER, PASSWORD = "robot", "s3cret"
GUEST, GUEST_PASSWORD = "guest", "guest"
LEAST, LEAST_BUCKET = "least", "mine"
"""A user (its password is its name) with just the rights for one bucket that docs/operators.md names."""

PROGRAM = Path(sysconfig.get_path("scripts")) / "nats-server"


@dataclass
class NatsServer:
    """A server that can be killed and started again on its port, with its data."""

    folder: Path
    port: int
    authority: Identity | None = None
    process: subprocess.Popen[bytes] | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def access(self) -> NatsAccess:
        """What lets us in."""
        if self.authority is None:
            return NatsAccess(servers=[f"nats://127.0.0.1:{self.port}"])
        return NatsAccess(
            servers=[f"tls://127.0.0.1:{self.port}"],
            user=USER,
            password=PASSWORD,
            authorities=self.authority.certificate_pem.decode(),
        )

    def start(self) -> None:
        """Start it and return when it listens."""
        config = self.folder / "nats.conf"
        config.write_text(json.dumps(self.options))
        with (self.folder / "nats.log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "-c", config], stdout=log, stderr=log, env={"PATH": os.environ["PATH"]}
            )
        eventually_sync(lambda: _listens(self.port), 20, what="nats listens")

    def kill(self) -> None:
        """End it with SIGKILL; harmless when it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def nats_server(folder: Path, *, secured: bool = False, more: Mapping[str, Any] | None = None) -> Iterator[NatsServer]:
    """Run a server below ``folder``, with ``more`` options in place of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": port,
        "jetstream": {"store_dir": str(folder / "data"), "sync_interval": "always"},
    }
    authority = None
    if secured:
        authority = identity("authority")
        server = identity("server", authority)
        (folder / "tls.crt").write_bytes(server.certificate_pem)
        (folder / "tls.key").write_bytes(server.key_pem)
        options["tls"] = {"cert_file": str(folder / "tls.crt"), "key_file": str(folder / "tls.key")}
        bucket = f"KV_{LEAST_BUCKET}"
        least = [
            f"$KV.{LEAST_BUCKET}.>",
            "$JS.API.INFO",
            f"$JS.API.STREAM.INFO.{bucket}",
            f"$JS.API.STREAM.MSG.GET.{bucket}",
            f"$JS.API.CONSUMER.*.{bucket}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{bucket}.>",
        ]
        denied = {"publish": {"deny": ["$KV.>"]}}
        options["authorization"] = {
            "users": [
                {"user": USER, "password": PASSWORD},
                {"user": LEAST, "password": LEAST, "permissions": {"publish": least, "subscribe": "_INBOX.>"}},
                {"user": GUEST, "password": GUEST_PASSWORD, "permissions": denied},
            ]
        }
    running = NatsServer(folder, port, authority, options=options | dict(more or {}))
    running.start()
    try:
        yield running
    finally:
        running.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
