"""What `windlass doctor` finds out about a cluster and a Temporal that people bring along; changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.service import RPCError

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions_age import outdated
from windlass.cli.cluster import Cluster
from windlass.cli.inspect.endpoint import inspecting
from windlass.devstack.doctor import Finding, Level
from windlass.domain.errors import WindlassError
from windlass.domain.ids import (
    API_VERSION,
    INSTALLATION_LABEL,
    MEMBER_LABEL,
    SYSTEM_NAMESPACE,
    Kind,
    lease_name,
)
from windlass.ports.kube import ObjectRef
from windlass.temporal import search_attributes

if TYPE_CHECKING:
    from windlass.cli.context import Context

_LEASES = "coordination.k8s.io/v1"

_SILENT = timedelta(minutes=1)
"""After which a Lease that was not renewed is taken for that of a dead process; four times as long as the longest one
lasts, since clocks differ."""

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
        client = await context.reach("doctor")
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
            async for finding in _processes(kube, context.installation):
                yield finding
            yield await _inspect(context, kube)
    except WindlassError as error:
        yield Finding("cluster", Level.PROBLEM, error.message, error.hint)


async def _processes(kube: KubeClient, installation: str) -> AsyncIterator[Finding]:
    """Look for those who hold Leases; one that was not renewed for long is of a process that was killed."""
    name = lease_name(installation, "watcher")
    watcher = await kube.get(ObjectRef(api_version=_LEASES, kind="Lease", namespace=SYSTEM_NAMESPACE, name=name))
    holder = _holder(watcher) if watcher else ""
    if holder:
        yield Finding("watcher", Level.OK, f"{holder} holds the Lease of installation {installation}")
    else:
        text = f"nobody watches for installation {installation}: changes of objects wait"
        yield Finding("watcher", Level.NOTE, text, "windlass worker --role all, or windlass watcher")
    labels = {INSTALLATION_LABEL: installation, MEMBER_LABEL: "worker"}
    selector = ",".join(f"{label}={value}" for label, value in labels.items())
    found = await kube.list(_LEASES, "Lease", namespace=SYSTEM_NAMESPACE, label_selector=selector)
    living = sorted(term.partition("/")[0] for one in found.items if (term := _holder(one)))
    if living:
        yield Finding("worker", Level.OK, f"{len(living)} of installation {installation}: {', '.join(living)}")
    else:
        text = f"no worker lives for installation {installation}: lifecycles stand still"
        yield Finding("worker", Level.NOTE, text, "windlass worker --role all")


async def _inspect(context: Context, kube: KubeClient) -> Finding:
    """Look whether a worker answers questions about packages."""
    place = Cluster(context=context, kube=kube, namespace=kube.access.namespace)
    try:
        async with inspecting(place) as endpoint:
            return Finding("inspect", Level.OK, await endpoint.reached())
    except WindlassError as error:
        return Finding("inspect", Level.NOTE, f"{error.message}: history, values, render, diff wait", error.hint)


def _holder(lease: dict[str, Any]) -> str:
    """Return who holds a Lease; empty if nobody does, or has not renewed it for long."""
    spec = cast("dict[str, Any]", lease.get("spec") or {})
    renewed = spec.get("renewTime")
    if not renewed or datetime.now(UTC) - datetime.fromisoformat(renewed) > _SILENT:
        return ""
    return str(spec.get("holderIdentity") or "")
