"""A process that is killed while Helm works for it: ``python doomed.py REQUEST.json``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from windlass.adapters.helm.client import HelmClient
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.targets.caller import CallerTargets
from windlass.domain.lifecycle.provenance import Known
from windlass.domain.target import Account, Target
from windlass.ports.helm import ReleaseRef, ReleaseRequest


class Forgetful:
    """A ledger that nobody will ask again."""

    known = Known()
    adopt = None

    def digest(self, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    async def note(self, known: Known) -> None:
        self.known = known

    async def unfinished(self) -> ReleaseRequest | None:
        return None


async def main(order: dict[str, Any]) -> None:
    kubeconfig = Path(order["kubeconfig"])
    request = ReleaseRequest(
        ref=ReleaseRef(
            target=Target(
                account=Account(namespace=order["namespace"], name="windlass-application"), namespace=order["namespace"]
            ),
            name=order["name"],
        ),
        owner="Application tests/web",
        chart=Path(order["chart"]),
        chart_has_hooks=order["has_hooks"],
        values={"value": "doomed"},
        digest="doomed",
    )
    async with (
        KubeClient.from_kubeconfig(kubeconfig) as kube,
        HelmClient(
            targets=CallerTargets(kube, kubeconfig),
            helm=Path(order["helm"]),
            scratch=Path(order["scratch"]),
            pool_size=2,
        ) as helm,
    ):
        await helm.upgrade(request, Forgetful())


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
