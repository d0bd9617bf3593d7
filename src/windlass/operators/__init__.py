"""Puts operators together: connects to the cluster, assembles what `windlass.framework` needs, runs the process.

This is the composition root of operators, the only place beside programs that knows both frameworks and adapters.
"""

from windlass.operators.kubernetes import connect, kubernetes_framework
from windlass.operators.process import run

__all__ = ["connect", "kubernetes_framework", "run"]
