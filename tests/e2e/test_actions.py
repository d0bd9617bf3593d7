"""Actions of people: retry, pause, resume; who requested them and why; and what can be asked of a lifecycle."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.installation import CONFIG_MAP, GREETING, Installation, condition, write_greeter, write_package
from support.running import events, keep, packages, revisions, running, shown
from support.waiting import eventually
from windlass.contracts.lifecycle import Action
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason


@pytest.fixture(scope="module")
async def installation(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Installation]:
    """One running installation for all tests here; each has an Application of its own."""
    async with running(stack, tmp_path_factory.mktemp("actions")) as made:
        write_greeter(packages(made), "1.0.0", "1.1.0")
        yield made


async def told(installation: Installation, name: str, reason: str) -> str:
    """Wait for the Event with this reason; return what it says."""

    async def there() -> str:
        return next((one["note"] for one in await events(installation, name) if one["reason"] == reason), "")

    return await eventually(there, what=f"an Event {reason} about {name}")


async def test_retry_tries_the_failed_step_at_once(installation: Installation, tmp_path: Path) -> None:
    good = tmp_path / "good"
    write_package(
        packages(installation),
        "failing",
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        # Wrong in form: somebody must act, so the next try by itself is ten minutes away.
        hooks={
            "wrong.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo 'configVersion: v1\nbeforeHelm: 1' && exit 0\n"
            f'[ -e {good} ] || echo \'{{"op": "add", "path": "/elsewhere", "value": 1}}\' > $VALUES_JSON_PATCH_PATH\n'
        },
    )
    key = installation.key("one")
    await installation.application("one", "failing", "1.0.0")
    obj = await installation.status("one", lambda status: status.get("failure"))
    failure = (await installation.lifecycles.status(key)).failure
    assert failure is not None
    assert failure.next_try - time.time() > 300, "nothing happens by itself for a while"
    assert obj["status"]["failure"]["actor"] == "author"

    good.touch()
    result = await installation.lifecycles.retry(key, Action(who="ann", why="the hook was mended"))
    assert result.accepted
    obj = await installation.ready("one")
    action = obj["status"]["actions"][-1]
    assert (action["action"], action["who"], action["why"]) == ("retry", "ann", "the hook was mended")
    assert await told(installation, "one", "RetryRequested") == "ann requested retry: the hook was mended"

    refused = await installation.lifecycles.retry(key, Action(who="ann"))
    assert not refused.accepted
    assert refused.message == "nothing has failed"
    await keep(installation, "one", "failure-and-retry-action")


async def test_pause_holds_and_resume_goes_on(installation: Installation) -> None:
    key = installation.key("two")
    await installation.application("two", "greeter", "1.0.0")
    await installation.ready("two")
    result = await installation.lifecycles.pause(key, Action(who="ann", why="holidays"))
    assert result.accepted
    obj = await installation.status("two", lambda status: status.get("phase") == "Paused")
    assert condition(obj, "Ready")["reason"] == "Paused"
    assert await told(installation, "two", "PauseRequested") == "ann requested pause: holidays"
    assert not (await installation.lifecycles.pause(key, Action(who="bob"))).accepted

    await installation.application("two", "greeter", "1.1.0")
    obj = await installation.status("two", lambda status: status["seen"]["generation"] == 2)
    assert (await shown(installation, "two"))["version"] == "1.0.0"
    assert (await installation.lifecycles.queues(key)).queues == {key.package_id: ()}

    assert (await installation.lifecycles.resume(key, Action(who="bob", why="back"))).accepted
    obj = await installation.ready("two", "1.1.0")
    assert [(one["action"], one["who"]) for one in obj["status"]["actions"]] == [("pause", "ann"), ("resume", "bob")]
    await keep(installation, "two", "pause-and-resume")


async def test_a_pause_outlives_worker_and_workflow(installation: Installation) -> None:
    key = installation.key("three")
    await installation.application("three", "greeter", "1.0.0")
    await installation.ready("three")
    await installation.lifecycles.pause(key, Action(who="ann", why="holidays"))
    await installation.status("three", lambda status: status.get("phase") == "Paused")
    await installation.client.get_workflow_handle(f"{installation.name}/package/{key.package_id}").terminate("lost")
    await installation.application("three", "greeter", "1.1.0")
    await installation.status("three", lambda status: status["seen"]["generation"] == 2)
    view = await installation.lifecycles.status(key)
    assert view.paused
    assert [one.action for one in view.actions] == ["pause"]
    assert (await shown(installation, "three"))["version"] == "1.0.0"

    await installation.delete("three")
    await installation.gone("three")
    assert await revisions(installation, "three") == [], "a pause does not hold a removal up"


async def test_a_lifecycle_tells_where_it_stands_and_what_is_left(installation: Installation, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    write_package(
        packages(installation),
        "held",
        "1.0.0",
        templates={"config.yaml": CONFIG_MAP},
        settings=GREETING,
        hooks={
            "10-held.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo 'configVersion: v1\nbeforeHelm: 1' && exit 0\n"
            f"while [ -e {tmp_path}/hold ]; do sleep 0.05; done\n"
        },
    )
    key = installation.key("four")
    await installation.application("four", "held", "1.0.0")

    async def runs() -> bool:
        return (await installation.lifecycles.dump(key)).running == "BeforeHelm hooks/10-held.sh"

    await eventually(runs, what="the hook runs")
    view = await installation.lifecycles.status(key)
    assert (view.package, view.phase, view.step) == (key.package_id, "Installing", "BeforeHelm hooks/10-held.sh")
    (queue,) = (await installation.lifecycles.queues(key)).queues.values()
    assert [(one.name, one.running) for one in queue] == [
        ("BeforeHelm hooks/10-held.sh", True),
        ("UpgradeRelease", False),
    ]
    dump = await installation.lifecycles.dump(key)
    assert dump.state.progress.artifact is not None
    assert dump.history_events > 0

    (tmp_path / "hold").unlink()
    await installation.ready("four")
    view = await installation.lifecycles.status(key)
    assert (view.phase, view.step, view.hold, view.version) == ("Running", "Idle", "Idle", "1.0.0")
    assert (await installation.lifecycles.queues(key)).queues == {key.package_id: ()}


async def test_actions_for_a_package_that_is_not_there_say_so(installation: Installation) -> None:
    with pytest.raises(PermanentError) as raised:
        await installation.lifecycles.retry(installation.key("nobody"), Action(who="ann"))
    assert raised.value.reason is Reason.PACKAGE_NOT_FOUND
