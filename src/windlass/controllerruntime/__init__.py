"""A controller whose primary resources are entities in NATS, in process. Counterpart of Kumori's `controllerruntime`.

The public face: a controller implements `IController`, makes a `ControllerRuntime` and hands itself over with
`ControllerRuntime.set_custom_controller`. Knows ports and domain only; `windlass.adapters.nats` and `.kube` implement
the ports.
"""

from windlass.controllerruntime.controller import IController
from windlass.controllerruntime.garbage import Sweep, sweep
from windlass.controllerruntime.informer import Informer
from windlass.controllerruntime.metrics import QueueMetrics
from windlass.controllerruntime.ownership import (
    OWNER_KEY_ANNOTATION,
    OWNER_KEY_LABEL,
    OWNER_KIND_ANNOTATION,
    OWNER_KIND_LABEL,
    Owner,
    owned,
    owner_of,
    selector,
)
from windlass.controllerruntime.ratelimit import RateLimiter
from windlass.controllerruntime.reasons import (
    MESSAGE_ERR_RESOURCE_EXISTS,
    MESSAGE_RESOURCE_SYNCED_CREATED,
    MESSAGE_RESOURCE_SYNCED_DELETED,
    MESSAGE_RESOURCE_SYNCED_UPDATED,
    REASON_ERR_RESOURCE_EXISTS,
    REASON_RESOURCE_SYNCED,
)
from windlass.controllerruntime.runtime import ControllerRuntime
from windlass.controllerruntime.workqueue import WorkQueue
from windlass.domain.entities import Operation

__all__ = [
    "MESSAGE_ERR_RESOURCE_EXISTS",
    "MESSAGE_RESOURCE_SYNCED_CREATED",
    "MESSAGE_RESOURCE_SYNCED_DELETED",
    "MESSAGE_RESOURCE_SYNCED_UPDATED",
    "OWNER_KEY_ANNOTATION",
    "OWNER_KEY_LABEL",
    "OWNER_KIND_ANNOTATION",
    "OWNER_KIND_LABEL",
    "REASON_ERR_RESOURCE_EXISTS",
    "REASON_RESOURCE_SYNCED",
    "ControllerRuntime",
    "IController",
    "Informer",
    "Operation",
    "Owner",
    "QueueMetrics",
    "RateLimiter",
    "Sweep",
    "WorkQueue",
    "owned",
    "owner_of",
    "selector",
    "sweep",
]
