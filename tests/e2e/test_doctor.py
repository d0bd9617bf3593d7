"""`windlass doctor` says whether anybody works for an installation."""

from __future__ import annotations

from pathlib import Path

from support.installation import Installation
from support.waiting import eventually
from windlass.cli.context import Context
from windlass.cli.stack.reachable import examine
from windlass.devstack.doctor import Finding, Level
from windlass.domain.ids import SYSTEM_NAMESPACE
from windlass.ports.kube import ObjectRef


async def test_who_works_is_told_from_who_was_killed(installation: Installation, tmp_path: Path) -> None:
    environ = {**installation.stack.env, "WINDLASS_INSTALLATION": installation.name}

    async def examined() -> dict[str, Finding]:
        return {one.subject: one for one in await examine(Context.find(tmp_path, environ))}

    found = await examined()
    assert {found[name].level for name in ("watcher", "worker", "inspect")} == {Level.NOTE}
    assert "lifecycles stand still" in found["worker"].found

    installation.start()

    async def both() -> bool:
        found = await examined()
        return {found[name].level for name in ("watcher", "worker", "inspect")} == {Level.OK}

    await eventually(both, what="both hold their Leases")
    assert f"1 of installation {installation.name}: {installation.name}-worker-" in (await examined())["worker"].found

    installation.kill()
    leases = await installation.kube.list("coordination.k8s.io/v1", "Lease", namespace=SYSTEM_NAMESPACE)
    names = [one["metadata"]["name"] for one in leases.items if one["metadata"]["name"].startswith(installation.name)]
    assert len(names) == 2
    for name in names:  # as if it had been an hour ago
        ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=SYSTEM_NAMESPACE, name=name)
        await installation.kube.patch(ref, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}, kind="merge")
    found = await examined()
    assert {name: found[name].level for name in ("watcher", "worker")} == {"watcher": Level.NOTE, "worker": Level.NOTE}
    for name in names:
        await installation.kube.delete(
            ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=SYSTEM_NAMESPACE, name=name)
        )
