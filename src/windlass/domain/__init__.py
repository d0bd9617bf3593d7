"""Pure decisions: no clock, no I/O, no Temporal, no Kubernetes.

Everything here is a function of its arguments.
"""
