"""An operator on windlass.framework: writes to status what it saw in spec."""

from __future__ import annotations

import os
from typing import Any

import structlog

from windlass.framework import ResourceSet
from windlass.operators import connect, kubernetes_framework, run
from windlass.ports.kube import Kube, Object, ObjectRef


class Seen:
    """Says in status which value it has seen."""

    name = "seen"

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def ensure_created(self, obj: Any) -> None:
        """Write the value, once."""
        value = obj["spec"]["value"]
        if (obj.get("status") or {}).get("seen") != value:
            await self._kube.patch(_ref(obj), {"status": {"seen": value}}, kind="merge", subresource="status")

    async def ensure_deleted(self, obj: Any) -> None:
        """Nothing was made."""


def _ref(obj: Object) -> ObjectRef:
    meta = obj["metadata"]
    return ObjectRef(api_version=obj["apiVersion"], kind=obj["kind"], namespace=meta["namespace"], name=meta["name"])


async def main() -> None:
    """Run until stopped."""
    async with connect("bench-operator", qps=1000, burst=1000) as kube:
        sets = [ResourceSet(handles=lambda _: True, logger=structlog.get_logger(), resources=[Seen(kube)])]
        await kubernetes_framework(
            kube,
            name="bench-operator",
            api_version="bench.windlass.dev/v1",
            kind=os.environ["BENCH_KIND"],
            resource_sets=sets,
            keep_finalizers=False,
        ).boot()


if __name__ == "__main__":
    run(main, log_level="warning")
