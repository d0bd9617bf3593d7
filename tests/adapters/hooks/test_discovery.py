from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.hook_package import HookPackage
from support.waiting import SOON
from windlass.adapters.hooks import runner as runner_module
from windlass.adapters.hooks.runner import HookRunner
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.packages.model import Binding, Hook

CONFIG = "echo 'configVersion: v1'; echo 'beforeHelm: 10'"


async def test_each_file_is_asked_with_config_only(runner: HookRunner, package: HookPackage) -> None:
    record = 'echo "$# $* $PWD" >> asked\n'
    files = [
        package.write(record + CONFIG, path="hooks/a.sh"),
        package.write(record + """echo '{"onStartup": 1}'""", path="hooks/sub/b"),
    ]
    hooks = await runner.discover(package.root, files)
    assert hooks == (
        Hook(path="hooks/a.sh", orders={Binding.BEFORE_HELM: 10}),
        Hook(path="hooks/sub/b", orders={Binding.ON_STARTUP: 1}),
    )
    # Both in the hooks folder, once each, and no other arguments than --config.
    folder = package.root / "hooks"
    assert (folder / "asked").read_text().splitlines() == [f"1 --config {folder}"] * 2


async def test_stdin_is_at_its_end_and_files_are_not_given(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    path = package.write(f"cat; jq . $BINDING_CONTEXT_PATH </dev/stdin; env >&2; {CONFIG}")
    await runner.discover(package.root, [path])
    names = {line.split("=")[0] for line in lines()}
    assert names <= {"PATH", "HOME", "TMPDIR", "TZ", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo nope >&2; exit 2", "exit status 2, its last lines:\nnope"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("no-such-program", "exit status 127 (a program was not found)"),
        ("head -c 300000 /dev/zero", "printed more than 262144 bytes"),
        (r"printf 'a: \377'", "not UTF-8 at byte 3"),
        ("echo 'configVersion: v1'; echo 'schedule: []'", "schedule: this version of Windlass does not serve"),
        ("true", "printed nothing"),
    ],
)
async def test_what_is_wrong_is_named_by_file(runner: HookRunner, package: HookPackage, script: str, says: str) -> None:
    good = package.write(CONFIG, path="hooks/a.sh")
    bad = package.write(script, path="hooks/b.sh")
    with pytest.raises(PermanentError) as caught:
        await runner.discover(package.root, [good, bad])
    error = caught.value
    assert (error.reason, error.actor) == (Reason.INIT_HOOKS_FAILED, Actor.AUTHOR)
    assert error.message.startswith(f"hooks/b.sh --config: {says}")


async def test_a_file_without_its_executable_bit(runner: HookRunner, package: HookPackage) -> None:
    path = package.write(CONFIG, mode=0o644)
    with pytest.raises(PermanentError, match=r"exit status 126 \(cannot be executed: is its executable bit set\?\)"):
        await runner.discover(package.root, [path])


async def test_no_answer_in_time_is_tried_again(
    runner: HookRunner, package: HookPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "DISCOVERY_TIMEOUT", 0.3)
    path = package.write("sleep 1000")
    begin = time.monotonic()
    with pytest.raises(TransientError, match=r"hooks/hook\.sh --config: no answer within 0\.3 s") as caught:
        await runner.discover(package.root, [path])
    assert caught.value.reason is Reason.INIT_HOOKS_FAILED
    assert time.monotonic() - begin < SOON
