"""A framework over the objects of one Kubernetes kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.definitions import KubeDefinitions
from windlass.adapters.kube.following.feed import KubeFeed
from windlass.framework.finalizers import Finalizers
from windlass.framework.framework import Framework
from windlass.framework.informer import RATE_WAIT_SECONDS, RESYNC_SECONDS, ObjectInformer
from windlass.framework.metrics import FrameworkMetrics
from windlass.framework.resource_set import ResourceSet
from windlass.framework.router import ResourceRouter
from windlass.ports.kube import Kube, Object


@asynccontextmanager
async def connect(
    name: str, *, kubeconfig: str | Path | None = None, qps: float = 50.0, burst: int = 100
) -> AsyncGenerator[KubeClient]:
    """Give a client of the cluster that is closed at the end of the block.

    Args:
        name: of the operator: field manager of plain writes, and user agent.
        kubeconfig: path or text; None for KUBECONFIG, ~/.kube/config, the pod's service account.
        qps: requests a second.
        burst: requests at once.

    Raises:
        PermanentError: the kubeconfig cannot be used; names file and field.
    """
    async with KubeClient.from_kubeconfig(kubeconfig, qps=qps, burst=burst, user_agent=name) as kube:
        yield kube


def kubernetes_framework(  # noqa: PLR0913 - all keyword; what an operator is told apart by
    kube: Kube,
    *,
    name: str,
    api_version: str,
    kind: str,
    resource_sets: Sequence[ResourceSet],
    crd: Object | None = None,
    namespace: str = "",
    label_selector: str = "",
    finalizer: str = "",
    keep_finalizers: bool = True,
    resync: float = RESYNC_SECONDS,
    rate_wait: float = RATE_WAIT_SECONDS,
    concurrency: int | None = None,
    metrics: FrameworkMetrics | None = None,
) -> Framework:
    """Assemble a framework that reconciles the objects of one kind.

    Args:
        kube: the client.
        name: of the framework; owner of the definition's fields and part of the finalizer.
        api_version: of the kind.
        kind: whose objects are reconciled.
        resource_sets: exactly one may handle an object.
        crd: the definition that is applied before watching begins.
        namespace: to watch; empty for all.
        label_selector: to watch.
        finalizer: see `Finalizers`.
        keep_finalizers: whether objects are held until their deletion was handled. Without, deletions while the
            operator is down are lost.
        resync: see `ObjectInformer`.
        rate_wait: see `ObjectInformer`.
        concurrency: see `Framework`.
        metrics: see `Framework`.

    Raises:
        InvalidConfigError: as the constructors of the parts.
    """
    logger = structlog.stdlib.get_logger("windlass.framework").bind(framework=name)
    feed = KubeFeed(kube, api_version, kind, namespace=namespace, label_selector=label_selector)
    return Framework(
        crd=crd,
        crd_client=None if crd is None else KubeDefinitions(kube, field_manager=name),
        informer=ObjectInformer(feed=feed, logger=logger, resync=resync, rate_wait=rate_wait, metrics=metrics),
        logger=logger,
        resource_router=ResourceRouter(logger=logger, resource_sets=resource_sets),
        finalizers=Finalizers(kube, name=name, finalizer=finalizer) if keep_finalizers else None,
        concurrency=concurrency,
        metrics=metrics,
    )
