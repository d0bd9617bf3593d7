"""Windlass: package lifecycles on Kubernetes as durable Temporal workflows."""
