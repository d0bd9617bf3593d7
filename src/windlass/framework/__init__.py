"""Operators in the manner of operatorkit's framework, in process and on asyncio: this is the public face.

The parts `chain`, `crud`, `patch`, `router`, `resource_set` and `backoff` are pure: they do no I/O and know no cluster.
The rest reaches the cluster through `windlass.ports.operators`, whose adapters are in `windlass.adapters.kube`.
"""

from windlass.framework.backoff import BackOff, BackOffFactory, ExponentialBackOff, default_backoff_factory, retry
from windlass.framework.chain import process_delete, process_update
from windlass.framework.crud import CRUDResource, CRUDResourceOps
from windlass.framework.errors import (
    ExecutionFailedError,
    FrameworkError,
    InvalidConfigError,
    InvalidEventError,
    LoopDetectedError,
    NoResourceSetError,
    is_execution_failed,
    is_invalid_config,
    is_invalid_event,
    is_loop_detected,
    is_no_resource_set,
)
from windlass.framework.events import Delete, Event, Failure, Informer, Update, from_queues
from windlass.framework.finalizers import Finalizers
from windlass.framework.flags import (
    Flag,
    FlagState,
    deletion_allowed,
    finalizers_kept,
    reconciliation_canceled,
    resource_canceled,
    update_allowed,
    update_necessary,
)
from windlass.framework.framework import Framework
from windlass.framework.informer import ObjectInformer
from windlass.framework.metrics import (
    PROMETHEUS_NAMESPACE,
    PROMETHEUS_SUBSYSTEM,
    FrameworkMetrics,
    default_metrics,
    wrap_with_metrics,
)
from windlass.framework.patch import Patch
from windlass.framework.resource import Logger, Resource, default_resource_set_resource_func
from windlass.framework.resource_set import ResourceSet
from windlass.framework.retrying import wrap_with_retry
from windlass.framework.router import ResourceRouter
from windlass.framework.wrapping import unwrapped

__all__ = [
    "PROMETHEUS_NAMESPACE",
    "PROMETHEUS_SUBSYSTEM",
    "BackOff",
    "BackOffFactory",
    "CRUDResource",
    "CRUDResourceOps",
    "Delete",
    "Event",
    "ExecutionFailedError",
    "ExponentialBackOff",
    "Failure",
    "Finalizers",
    "Flag",
    "FlagState",
    "Framework",
    "FrameworkError",
    "FrameworkMetrics",
    "Informer",
    "InvalidConfigError",
    "InvalidEventError",
    "Logger",
    "LoopDetectedError",
    "NoResourceSetError",
    "ObjectInformer",
    "Patch",
    "Resource",
    "ResourceRouter",
    "ResourceSet",
    "Update",
    "default_backoff_factory",
    "default_metrics",
    "default_resource_set_resource_func",
    "deletion_allowed",
    "finalizers_kept",
    "from_queues",
    "is_execution_failed",
    "is_invalid_config",
    "is_invalid_event",
    "is_loop_detected",
    "is_no_resource_set",
    "process_delete",
    "process_update",
    "reconciliation_canceled",
    "resource_canceled",
    "retry",
    "unwrapped",
    "update_allowed",
    "update_necessary",
    "wrap_with_metrics",
    "wrap_with_retry",
]
