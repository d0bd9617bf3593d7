"""The scripts by which modules decide for themselves whether they are enabled."""

from __future__ import annotations

import json

import pytest

from support.hook_package import HookPackage
from windlass.adapters.hooks.runner import HookRunner
from windlass.domain.errors import Reason, TransientError
from windlass.ports.hooks import EnabledRun, Verdict


def question(package: HookPackage, script: str, *, mode: int = 0o755) -> EnabledRun:
    package.write(script, path="enabled", mode=mode)
    return EnabledRun(
        root=package.root,
        values={"global": {}, "ingress": {"size": 3}},
        config_values={"global": {}, "ingress": {}},
        namespace="windlass-system",
        package_id="ingress",
    )


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ("echo true > $MODULE_ENABLED_RESULT", Verdict(enabled=True)),
        ("printf ' false ' > $MODULE_ENABLED_RESULT", Verdict(enabled=False)),
        (
            "echo false > $MODULE_ENABLED_RESULT; echo 'not today' > $MODULE_ENABLED_REASON",
            Verdict(enabled=False, reason="not today"),
        ),
    ],
)
async def test_what_it_says(runner: HookRunner, package: HookPackage, script: str, verdict: Verdict) -> None:
    assert await runner.ask(question(package, script)) == verdict


async def test_it_sees_values_and_no_credentials(runner: HookRunner, package: HookPackage) -> None:
    script = """
    cp "$VALUES_PATH" values; cp "$CONFIG_VALUES_PATH" config; env > environment
    echo true > $MODULE_ENABLED_RESULT
    """
    await runner.ask(question(package, script))
    assert json.loads((package.root / "values").read_text())["ingress"] == {"size": 3}
    assert json.loads((package.root / "config").read_text())["ingress"] == {}
    environment = (package.root / "environment").read_text()
    assert "WINDLASS_PACKAGE=ingress" in environment
    assert "KUBECONFIG" not in environment


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo why >&2; exit 3", "enabled: exit status 3, its last lines:\nwhy"),
        ("true", "enabled: MODULE_ENABLED_RESULT: is empty, expected true or false"),
        ("echo yes > $MODULE_ENABLED_RESULT", "enabled: MODULE_ENABLED_RESULT: expected true or false"),
    ],
)
async def test_one_that_fails_is_asked_again(runner: HookRunner, package: HookPackage, script: str, says: str) -> None:
    with pytest.raises(TransientError) as caught:
        await runner.ask(question(package, script))
    assert caught.value.reason is Reason.ENABLED_SCRIPT_ERROR
    assert caught.value.message.startswith(says)
