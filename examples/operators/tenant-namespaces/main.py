"""An operator: a Tenant becomes a namespace with quota, network policies and role bindings.

Start it with `python main.py`, then `kubectl apply -f tenant.yaml`.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from sets import resource_sets

from windlass.framework import Framework
from windlass.operators import connect, kubernetes_framework, run
from windlass.ports.kube import Kube

API_VERSION = "tenants.example.dev/v1"
CRD = Path(__file__).with_name("crd.yaml")


def framework(kube: Kube) -> Framework:
    """Put the operator together."""
    return kubernetes_framework(
        kube,
        name="tenant-namespaces",
        api_version=API_VERSION,
        kind="Tenant",
        crd=yaml.safe_load(CRD.read_text()),
        resource_sets=resource_sets(kube),
        finalizer="tenants.example.dev/namespaces",
        resync=60,
        rate_wait=0.1,
    )


async def main() -> None:
    """Run until stopped."""
    async with connect("tenant-namespaces") as kube:
        await framework(kube).boot()


if __name__ == "__main__":
    run(main, metrics=os.environ.get("METRICS_ADDRESS", "127.0.0.1:0"))
