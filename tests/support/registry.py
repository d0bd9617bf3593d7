"""A real OCI registry (distribution) for tests: plain, or with a certificate of a private CA and a login or tokens."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.tls import Identity, identity
from support.token_service import ISSUER, SERVICE, TokenService, token_service
from support.waiting import eventually_sync
from windlass.devstack.programs.build import ensure_tools
from windlass.devstack.programs.catalog import TOOLS
from windlass.domain.packages.registry_login import Login
from windlass.ports.packages import Access, Repository

USER, PASSWORD = "robot", "s3cret"
_BCRYPT = "$2y$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK"  # of PASSWORD, as htpasswd -B writes it


@dataclass(frozen=True)
class RunningRegistry:
    """Where a registry listens, the CA to trust, its log, and who gives tokens for it."""

    host: str
    authority: Identity | None
    log: Path
    tokens: TokenService | None = None

    @property
    def base(self) -> str:
        """Start of its addresses."""
        return f"{'http' if self.authority is None else 'https'}://{self.host}"

    @property
    def access(self) -> Access:
        """What lets us in."""
        if self.authority is None:
            return Access()
        return Access(login=Login(username=USER, password=PASSWORD), authorities=self.authority.certificate_pem)

    def spec(self, path: str = "packages") -> dict[str, Any]:
        """Return the spec of a PackageRepository."""
        oci: dict[str, Any] = {"url": f"oci://{self.host}/{path}"}
        if self.authority is None:
            oci["insecure"] = True
        return {"kind": "oci", "oci": oci}

    def repository(self, path: str = "packages", access: Access | None = None, **spec: Any) -> Repository:
        """Return the repository as sources need it."""
        return Repository(name="corp", spec={**self.spec(path), **spec}, access=access or self.access)


@contextmanager
def registry(folder: Path, *, secured: bool = False, tokens: bool = False) -> Iterator[RunningRegistry]:
    """Run a registry below ``folder``; the program is built if it is missing.

    Args:
        folder: where it keeps everything.
        secured: TLS, and a login by password.
        tokens: TLS, and a login by tokens of a `TokenService`.
    """
    program = ensure_tools([TOOLS["registry"]], print, os.environ)["registry"].path
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    http: dict[str, Any] = {"addr": host}
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": http,
    }
    authority = service = None
    with ExitStack() as stack:
        if secured or tokens:
            authority = identity("authority")
            server = identity("server", authority)
            (folder / "tls.crt").write_bytes(server.certificate_pem)
            (folder / "tls.key").write_bytes(server.key_pem)
            http["tls"] = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
            if tokens:
                (folder / "roots.crt").write_bytes(authority.certificate_pem)
                service = stack.enter_context(token_service(folder, authority, USER, PASSWORD))
                bundle = {"service": SERVICE, "issuer": ISSUER, "rootcertbundle": str(folder / "roots.crt")}
                config["auth"] = {"token": {"realm": service.url, **bundle}}
            else:
                (folder / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
                config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        log = folder / "registry.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [program, "serve", folder / "config.yaml"],
                stdout=out,
                stderr=out,
                env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
            )
        try:
            eventually_sync(lambda: _listens(host), what="the registry listens")
            yield RunningRegistry(host, authority, log, service)
        finally:
            process.kill()
            process.wait()


def _listens(host: str) -> bool:
    name, _, port = host.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((name, int(port))) == 0
