"""Puts operators together: connects to the cluster, assembles what `windlass.framework` needs, runs the process.

This is the composition root of operators, the only place beside programs that knows both frameworks and adapters.
"""

from windlass.operators.kubernetes import connect, kubernetes_framework
from windlass.operators.nats import WallClock, bucket, connect_nats, event_log, informer, run_controller
from windlass.operators.process import run

__all__ = [
    "WallClock",
    "bucket",
    "connect",
    "connect_nats",
    "event_log",
    "informer",
    "kubernetes_framework",
    "run",
    "run_controller",
]
