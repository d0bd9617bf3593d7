"""What `windlass doctor` finds out about a cluster and a Temporal that people bring along; changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.service import RPCError

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions_age import outdated
from windlass.devstack.doctor import Finding, Level
from windlass.domain.errors import WindlassError
from windlass.domain.ids import API_VERSION, MODULE_NAMESPACE, Kind, lease_name
from windlass.ports.kube import ObjectRef
from windlass.temporal import search_attributes

if TYPE_CHECKING:
    from windlass.cli.context import Context

CRDS = "install the definitions: `kubectl apply --server-side -k deploy`, or the files of deploy/crds"


async def examine(context: Context) -> list[Finding]:
    """Ask Temporal and the cluster that commands would use."""
    return [finding async for finding in _all(context)]


async def _all(context: Context) -> AsyncIterator[Finding]:
    async for finding in _temporal(context):
        yield finding
    async for finding in _cluster(context):
        yield finding


async def _temporal(context: Context) -> AsyncIterator[Finding]:
    try:
        client = await context.connect("doctor")
    except WindlassError as error:
        yield Finding("temporal", Level.PROBLEM, error.message, error.hint)
        return
    target = context.temporal
    secured = "TLS" if target.tls else "clear text"
    yield Finding("temporal", Level.OK, f"{target.address}, namespace {target.namespace}, {secured}")
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        yield Finding(
            "search attributes",
            Level.NOTE,
            f"the server does not tell which there are ({error.status.name})",
            f"make sure of {', '.join(search_attributes.as_flags())}",
        )
        return
    missing = {
        name: type_ for name, type_ in search_attributes.as_flags().items() if name not in listed.custom_attributes
    }
    if missing:
        flags = " ".join(f"--name {name} --type {type_}" for name, type_ in missing.items())
        yield Finding(
            "search attributes",
            Level.MISSING,
            f"{', '.join(missing)} are not there",
            f"a worker registers them when it may; else `temporal operator search-attribute create {flags}`",
        )
    else:
        yield Finding("search attributes", Level.OK, "all there")


async def _cluster(context: Context) -> AsyncIterator[Finding]:
    try:
        path = context.kubeconfig
        async with KubeClient.from_kubeconfig(path, qps=20, burst=20, user_agent="windlass-doctor") as kube:
            kinds = [*(kind.value for kind in Kind), "PackageRepository"]
            absent = [kind for kind in kinds if await kube.resource(API_VERSION, kind) is None]
            yield Finding("cluster", Level.OK, f"{kube.access.server} ({path})")
            if absent:
                yield Finding("definitions", Level.PROBLEM, f"{', '.join(absent)} are not known there", CRDS)
            elif older := await outdated(kube):
                yield Finding("definitions", Level.PROBLEM, f"older than this windlass: {'; '.join(older)}", CRDS)
            else:
                yield Finding("definitions", Level.OK, ", ".join(kinds))
            lease = lease_name(context.installation, "watcher")
            ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=MODULE_NAMESPACE, name=lease)
            found = await kube.get(ref)
            spec = cast("dict[str, Any]", (found or {}).get("spec") or {})
            holder = str(spec.get("holderIdentity") or "")
            if holder:
                yield Finding("watcher", Level.OK, f"{holder} holds the Lease of installation {context.installation}")
            else:
                text = f"nobody watches for installation {context.installation}"
                yield Finding("watcher", Level.NOTE, text, "windlass worker --role all")
    except WindlassError as error:
        yield Finding("cluster", Level.PROBLEM, error.message, error.hint)
