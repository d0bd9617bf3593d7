"""Windlass: package lifecycles on Kubernetes as durable Temporal workflows."""

__version__ = "0.1.0"
