"""``windlass version``: what is installed, and with --check whether what it works with is new enough."""

from __future__ import annotations

import asyncio
import platform
import re
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from windlass.cli.options import DataDir
from windlass.cli.output import Output, emit, rows
from windlass.domain.errors import Actor, PermanentError, Reason

KUBERNETES_MIN: Final = (1, 28)
"""The oldest release Windlass is meant for: CEL rules in CRDs and server-side apply work there without any setting."""

KUBERNETES: Final = "kubernetes server"
KINDS: Final = "windlass kinds"
LIBRARIES: Final = ("temporalio", "kubernetes", "helm-sdkpy", "pydantic")


def version(
    check: Annotated[
        bool, typer.Option("--check", help="Ask the cluster and Temporal too; 1 if one is too old.")
    ] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="table, json or yaml.")] = Output.TABLE,
    data_dir: DataDir = None,
) -> None:
    """Show the versions of Windlass and of what it uses."""
    from importlib.metadata import version as installed

    from windlass import __version__
    from windlass.cli.output import console

    versions: dict[str, str] = {
        "windlass": __version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in LIBRARIES},
    }
    if check:
        versions |= asyncio.run(_servers(data_dir))
    if output in {Output.JSON, Output.YAML}:
        emit(versions, output)
    else:
        console().print(rows([], [[name, text] for name, text in versions.items()]))
    if check:
        _require(versions)


async def _servers(data_dir: Path | None) -> dict[str, str]:
    """Return the versions of the servers, and the version of our kinds; empty for kinds that are not served."""
    from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

    from windlass.adapters.kube.failures import Call
    from windlass.adapters.kube.ratelimit import TokenBucket
    from windlass.adapters.kube.transport import Transport
    from windlass.cli.cluster import cluster
    from windlass.domain.ids import API_VERSION
    from windlass.domain.text.documents import parse_json

    async with cluster("", data_dir) as place:
        bucket = TokenBucket(1.0, 1, clock=time.monotonic)
        http = Transport(place.kube.access, bucket=bucket, user_agent="windlass-cli", clock=time.monotonic)
        await http.open()
        try:
            answer = await http.request(Call(verb="get", resource="/version"), "GET", "/version")
        finally:
            await http.close()
        served = await place.kube.resource(API_VERSION, "Application")
        client = await place.context.reach("cli")
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    return {
        KUBERNETES: parse_json(answer.body).get("gitVersion", "") if answer.status < 400 else "",
        KINDS: served.api_version if served else "",
        "temporal server": info.server_version,
    }


def _require(versions: dict[str, str]) -> None:
    found = re.match(r"v(\d+)\.(\d+)", versions[KUBERNETES])
    if found is None or (int(found[1]), int(found[2])) < KUBERNETES_MIN:
        raise PermanentError(
            Reason.CHECK_VERSION_FAILED,
            f"Kubernetes is {versions[KUBERNETES] or 'of unknown version'}, "
            f"Windlass needs {KUBERNETES_MIN[0]}.{KUBERNETES_MIN[1]}",
            hint="upgrade the cluster",
            actor=Actor.ADMIN,
        )
    if not versions[KINDS]:
        raise PermanentError(
            Reason.CHECK_VERSION_FAILED,
            "the cluster does not serve the kinds of Windlass",
            hint="install them: kubectl apply --server-side -f deploy/crds",
            actor=Actor.ADMIN,
        )
