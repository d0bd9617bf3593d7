"""Which repository a command means: an object in the cluster, an address, or a folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.domain.errors import Actor, PermanentError, Reason

if TYPE_CHECKING:
    from windlass.domain.packages.registry_login import Login
    from windlass.ports.packages import Repository

Where = Annotated[
    str,
    typer.Argument(
        metavar="REPOSITORY",
        help="A PackageRepository in the cluster, oci://HOST/PATH, https://HOST/PATH (Helm), or a folder.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How to reach an address; what an object says of itself comes from the object."""

    username: Annotated[
        str, typer.Option("--username", "-u", help="User for an address; else Docker's configuration.")
    ] = ""
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")] = (
        False
    )
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", exists=True, dir_okay=False, help="Authorities to trust besides the system's."),
    ] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Speak plain HTTP to an address.")] = False


async def repository_at(where: str, reach: Reach) -> Repository:
    """Return the repository that a command names.

    Raises:
        PermanentError: REPOSITORY_NOT_FOUND, there is no such object or folder; VALIDATION_FAILED, it is no address;
            UNAUTHORIZED, half a login was given, or Docker's configuration is broken.
        TransientError: the cluster does not answer.
    """
    scheme, separator, rest = where.partition("://")
    if not separator and ("/" in where or where in {".", ".."}):
        return _folder(where)
    if not separator:
        return await _object(where)
    from windlass.ports.packages import Access, Repository

    kind = {"oci": "oci", "https": "helm", "http": "helm"}.get(scheme)
    if kind is None:
        raise PermanentError(
            Reason.VALIDATION_FAILED, f"{scheme}:// is no repository", hint="write oci:// or https://", actor=Actor.USER
        )
    if not rest.partition("/")[0]:
        raise PermanentError(
            Reason.VALIDATION_FAILED,
            f"{where} names no host",
            hint=f"write {scheme}://HOST/PATH",
            actor=Actor.USER,
        )
    authorities = reach.ca_file.read_bytes() if reach.ca_file else b""
    access = Access(login=_login(rest.partition("/")[0], reach), authorities=authorities)
    # Who runs the command reaches what they reach anyhow, so archives may be anywhere, as for the `helm` program.
    anywhere = {"archiveHosts": ["*"]} if kind == "helm" else {}
    spec = {"kind": kind, kind: {"url": where, "insecure": reach.insecure, **anywhere}}
    return Repository(name=where, spec=spec, access=access)


def _folder(where: str) -> Repository:
    from windlass.ports.packages import Repository

    if not Path(where).is_dir():
        raise PermanentError(
            Reason.REPOSITORY_NOT_FOUND,
            f"there is no folder {where}",
            hint="name a folder that holds packages, an address, or a PackageRepository in the cluster",
            actor=Actor.USER,
        )
    return Repository(name=where, spec={"kind": "file", "file": {"path": str(Path(where).absolute())}})


async def _object(name: str) -> Repository:
    from windlass.activities.inputs import read_repository
    from windlass.activities.repositories import with_access
    from windlass.cli.cluster import cluster

    async with cluster() as place:
        found = await read_repository(place.kube.get, name)
        if found is None:
            raise PermanentError(
                Reason.REPOSITORY_NOT_FOUND,
                f"there is no PackageRepository {name!r}",
                hint="see `kubectl get packagerepositories`; addresses start with oci:// or https://, folders with ./",
                actor=Actor.USER,
            )
        return await with_access(place.kube.get, found)


def _login(host: str, reach: Reach) -> Login | None:
    from windlass.domain.packages.registry_login import Login, login_for
    from windlass.domain.text.documents import DocumentError, parse_json

    if reach.username or reach.password_stdin:
        password = sys.stdin.readline().rstrip("\r\n") if reach.password_stdin else ""
        if not (reach.username and password):
            missing = "password on standard input" if reach.username else "user"
            raise PermanentError(
                Reason.UNAUTHORIZED,
                f"a login for {host} needs user and password: there is no {missing}",
                hint="give both --username and --password-stdin: `echo PASSWORD | windlass package ...`",
                actor=Actor.USER,
            )
        return Login(username=reach.username, password=password)
    file = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        return login_for(parse_json(file.read_bytes()), host)
    except FileNotFoundError:
        return None
    except (ValueError, DocumentError) as error:
        detail = "is not JSON" if isinstance(error, DocumentError) else str(error)
        if detail == "has no mapping `auths`":  # credential helpers alone: we know none
            return None
        raise PermanentError(
            Reason.UNAUTHORIZED, f"{file}: {detail}", hint="log in again, or give --username", actor=Actor.USER
        ) from None
