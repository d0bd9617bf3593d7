"""A request whose answer is lost together with Temporal's database is not carried out a second time."""

from __future__ import annotations

from pathlib import Path

from faults.servers import killed

from support.installation import installed, write_greeter
from support.rights import policies_settled, request
from support.waiting import eventually
from windlass.contracts.actions import ActionRequest, action_of, parse_request
from windlass.devstack.stack import Stack
from windlass.domain.ids import API_VERSION
from windlass.ports.kube import ObjectRef


async def test_what_was_cut_off_with_the_database_is_unknown(own_stack: Stack, tmp_path: Path) -> None:
    async with installed(own_stack, tmp_path / "installation") as installation:
        folder = tmp_path / "packages"
        folder.mkdir()
        await installation.repository(folder)
        write_greeter(folder, "1.0.0")
        watcher = installation.start("watcher", data="watch")
        worker = installation.start("worker")
        try:
            await installation.application("web", "greeter", "1.0.0")
            await installation.ready("web")
            # A watcher that passes the request on and dies before it can write the answer down.
            watcher.kill()
            watcher.wait()
            await policies_settled(installation.kube)
            made = parse_request(
                await installation.kube.create(request("pause", "web", installation.namespace, who="system:admin"))
            )
            answer = await installation.lifecycles.carry_out(installation.key("web"), "pause", action_of(made))
            assert answer.accepted
            await installation.status("web", lambda status: status.get("paused"))
            await installation.lifecycles.resume(installation.key("web"), installation.action())
            was = await installation.status("web", lambda status: not status.get("paused"))

            for file in own_stack.data_dir.glob("temporal.db*"):
                file.unlink()
            await killed(own_stack, "temporal")
            watcher = installation.start("watcher", data="watch")

            ref = ObjectRef(
                api_version=API_VERSION,
                kind="ActionRequest",
                namespace=installation.namespace,
                name=made.metadata.name,
            )

            async def answered() -> ActionRequest | None:
                one = parse_request(await installation.kube.get(ref) or {})
                return one if one.answered else None

            found = await eventually(answered, 90, what="an answer")
            assert found is not None
            assert found.status is not None
            assert (found.status.phase, found.status.accepted) == ("Unknown", None), found.status.message
            now = await installation.object("web")
            assert now is not None
            assert now["status"]["actions"] == was["status"]["actions"]
            assert not now["status"].get("paused"), "it was not paused a second time"
        finally:
            for process in (watcher, worker):
                process.kill()
                process.wait()
