"""One hook after another, as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hook_package import HookPackage, Logged, settings
from windlass.adapters.hooks import process
from windlass.adapters.hooks.output import LINE_COST, MAX_LOGGED
from windlass.adapters.hooks.runner import HookRunner
from windlass.adapters.runner import kernel
from windlass.domain.errors import Reason, TransientError
from windlass.domain.hooks.configuration import failure_reason
from windlass.domain.hooks.metrics import Action, Sample
from windlass.domain.packages.model import Binding, hooks_for
from windlass.ports.hooks import HookFailedError


async def test_a_run_reads_its_files_and_its_output_comes_back(runner: HookRunner, package: HookPackage) -> None:
    run = package.hook_run(
        """
        cp "$BINDING_CONTEXT_PATH" context; cp "$VALUES_PATH" values; cp "$CONFIG_VALUES_PATH" config
        patch='[{"op":"add","path":"/billing/a","value":1}]{"op":"remove","path":"/billing/b"}'
        echo "$patch" > "$VALUES_JSON_PATCH_PATH"
        echo '{"op":"add","path":"/billing/c","value":2}' > "$CONFIG_VALUES_JSON_PATCH_PATH"
        echo '{"operation":"Delete","kind":"Secret","name":"old"}' > "$KUBERNETES_PATCH_PATH"
        echo '{"name":"runs","action":"add","value":1}' > "$METRICS_PATH"
        """,
        values={"global": {}, "billing": {"size": "größer"}},
        config_values={"global": {}, "billing": {}},
    )
    output = await runner.run(run)
    assert output.values_patch == [
        {"op": "add", "path": "/billing/a", "value": 1},
        {"op": "remove", "path": "/billing/b"},
    ]
    assert output.config_values_patch == [{"op": "add", "path": "/billing/c", "value": 2}]
    assert output.operations == [{"operation": "Delete", "kind": "Secret", "name": "old"}]
    assert output.metrics == (Sample(action=Action.ADD, name="runs", value=1),)
    assert 0 < output.duration < 5
    # The working folder is that of the hook file.
    written = {
        name: json.loads((package.root / "hooks" / name).read_text()) for name in ("context", "values", "config")
    }
    assert written == {
        "context": [{"binding": "beforeHelm", "snapshots": {}}],
        "values": {"global": {}, "billing": {"size": "größer"}},
        "config": {"global": {}, "billing": {}},
    }


async def test_a_failed_hook_hands_over_what_it_asked_for_all_the_same(
    runner: HookRunner, package: HookPackage
) -> None:
    meant = {"operation": "Delete", "kind": "Pod", "name": "a", "ignoreHookError": True}
    text = json.dumps({"operation": "Delete", "kind": "Pod", "name": "b"}) + json.dumps(meant)
    with pytest.raises(HookFailedError) as caught:
        await runner.run(package.hook_run(f"echo '{text}' > $KUBERNETES_PATCH_PATH; exit 1"))
    assert caught.value.operations == (meant,)
    with pytest.raises(HookFailedError, match="exit status 1") as caught:
        await runner.run(package.hook_run("echo '{broken' > $KUBERNETES_PATCH_PATH; exit 1"))
    assert caught.value.operations == ()


async def test_the_environment_is_an_allow_list(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    await runner.run(package.hook_run("env", kubeconfig="kind: Config"))
    environment = dict(line.split("=", 1) for line in lines())
    protocol = {
        "BINDING_CONTEXT_PATH",
        "VALUES_PATH",
        "CONFIG_VALUES_PATH",
        "VALUES_JSON_PATCH_PATH",
        "CONFIG_VALUES_JSON_PATCH_PATH",
        "KUBERNETES_PATCH_PATH",
        "METRICS_PATH",
    }
    own = {"WINDLASS_PACKAGE", "WINDLASS_NAMESPACE", "KUBECONFIG", "HOME", "TMPDIR", "PATH", "TZ"}
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert set(environment) - of_the_shell == protocol | own
    assert environment["WINDLASS_PACKAGE"] == "prod.billing"
    assert environment["WINDLASS_NAMESPACE"] == "prod"
    assert environment["KUBECONFIG"] != "/admin"
    assert "tweet" not in "".join(environment.values())


async def test_a_hook_without_a_kubeconfig_is_given_none(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    await runner.run(package.hook_run('echo "[$KUBECONFIG]"'))
    assert lines() == ["[]"]


async def test_folders_and_files_are_for_their_owner_and_go_with_the_run(
    runner: HookRunner, package: HookPackage, tmp_path: Path
) -> None:
    run = package.hook_run(
        """
        stat -c %a "$VALUES_PATH" "$KUBECONFIG" "$METRICS_PATH" "$HOME" "$(dirname "$VALUES_PATH")" > modes
        dirname "$VALUES_PATH" > folder
        mkdir "$TMPDIR/locked" && touch "$TMPDIR/locked/x" && chmod 000 "$TMPDIR/locked"
        """,
        kubeconfig="kind: Config",
    )
    await runner.run(run)
    assert (package.root / "hooks/modes").read_text().split() == ["600", "600", "600", "700", "700"]
    folder = (package.root / "hooks/folder").read_text().strip()
    assert folder.startswith(str(tmp_path / "runs"))
    (worker,) = (tmp_path / "runs").iterdir()
    assert list(worker.iterdir()) == []


async def test_stdin_is_at_its_end(runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]) -> None:
    await runner.run(package.hook_run("cat; echo end", timeout=5))
    assert lines() == ["end"]


async def test_descriptors_of_the_worker_are_not_inherited(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    await runner.run(package.hook_run('for n in 3 4 5 6 7 8 9; do eval "true >&$n" 2>&- && echo $n; done; true'))
    assert lines() == []


async def test_output_is_logged_line_by_line_under_the_hooks_name(
    runner: HookRunner, package: HookPackage, logged: Logged
) -> None:
    await runner.run(package.hook_run("echo out; echo err >&2", path="hooks/sub/10-a.sh", binding=Binding.AFTER_HELM))
    common = {"event": "hook output", "log_level": "info", "package": "prod.billing", "hook": "hooks/sub/10-a.sh"}
    common |= {"binding": "afterHelm"}
    by_stream = sorted(logged, key=lambda entry: entry["stream"])
    assert by_stream == [common | {"stream": "stderr", "line": "err"}, common | {"stream": "stdout", "line": "out"}]


async def test_the_token_it_was_given_is_not_logged(runner: HookRunner, package: HookPackage, logged: Logged) -> None:
    kubeconfig = "users:\n- name: hook\n  user:\n    token: eyJhbGciOi.J9\n"
    with pytest.raises(TransientError) as caught:
        await runner.run(package.hook_run('cat "$KUBECONFIG" >&2; exit 1', kubeconfig=kubeconfig))
    assert "token: …" in str(caught.value)
    assert "eyJhbGciOi" not in str(caught.value) + str(logged)


@pytest.mark.parametrize("binding", list(Binding))
async def test_a_failure_has_the_bindings_reason_and_the_last_lines(
    runner: HookRunner, package: HookPackage, binding: Binding
) -> None:
    script = "echo noise; for i in $(seq 1 50); do echo line $i >&2; done; exit 3"
    with pytest.raises(TransientError) as caught:
        await runner.run(package.hook_run(script, binding=binding))
    message = caught.value.message
    assert message.startswith(f"hooks/hook.sh ({binding.value}): exit status 3, its last lines:\nline 31\n")
    assert message.endswith("line 50")
    assert caught.value.reason is failure_reason(binding)


async def test_without_error_output_the_last_lines_are_those_of_stdout(
    runner: HookRunner, package: HookPackage
) -> None:
    with pytest.raises(TransientError, match="its last lines:\nthe cause"):
        await runner.run(package.hook_run("echo the cause; exit 1"))


async def test_a_signal_is_named(runner: HookRunner, package: HookPackage) -> None:
    with pytest.raises(TransientError, match="killed by SIGSEGV"):
        await runner.run(package.hook_run("kill -SEGV $$"))


async def test_a_hook_that_cannot_be_executed_says_so(runner: HookRunner, package: HookPackage) -> None:
    run = package.hook_run("true")
    package.write("true", mode=0o644)
    with pytest.raises(TransientError, match=r"exit status 126 \(cannot be executed"):
        await runner.run(run)


async def test_a_missing_folder_is_a_failure_and_not_a_crash(runner: HookRunner, package: HookPackage) -> None:
    run = package.hook_run("true")
    (package.root / "hooks/hook.sh").unlink()
    (package.root / "hooks").rmdir()
    with pytest.raises(TransientError, match="cannot be run: No such file or directory") as caught:
        await runner.run(run)
    assert caught.value.reason is Reason.BEFORE_HELM_HOOKS_FAILED


async def test_bad_output_of_a_hook_that_ends_well_is_its_failure(runner: HookRunner, package: HookPackage) -> None:
    run = package.hook_run("""echo '{"op": "add", hush' > "$VALUES_JSON_PATCH_PATH" """)
    with pytest.raises(TransientError) as caught:
        await runner.run(run)
    assert "hooks/hook.sh (beforeHelm): VALUES_JSON_PATCH_PATH: malformed at line 1, column 15" in caught.value.message
    assert caught.value.reason is Reason.BEFORE_HELM_HOOKS_FAILED
    assert "hush" not in str(caught.value)


async def test_output_files_of_a_failed_hook_are_not_read(runner: HookRunner, package: HookPackage) -> None:
    with pytest.raises(TransientError, match="exit status 1"):
        await runner.run(package.hook_run("""echo '{bad' > "$METRICS_PATH"; exit 1"""))


async def test_a_gigabyte_of_output_neither_blocks_nor_fills_anything(
    runner: HookRunner, package: HookPackage, logged: Logged
) -> None:
    script = "yes 'all work and no play' | head -c 1000000000; echo end >&2; exit 9"
    with pytest.raises(TransientError, match="exit status 9, its last lines:\nend"):
        await runner.run(package.hook_run(script, timeout=60))
    shown = [entry["line"] for entry in logged if entry["event"] == "hook output"]
    assert sum(len(line) + LINE_COST for line in shown) <= MAX_LOGGED
    assert [entry["event"] for entry in logged if entry["log_level"] == "warning"] == ["hook output cut"]


async def test_hooks_of_a_binding_run_in_their_order(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    runs = {
        path: package.hook_run(f"echo {path}", path=path) for path in ("hooks/b.sh", "hooks/a.sh", "hooks/0-last.sh")
    }
    orders = {"hooks/b.sh": 1, "hooks/a.sh": 1, "hooks/0-last.sh": 2}
    for path, order in orders.items():
        package.write(
            f"[ \"$1\" != --config ] || {{ echo 'configVersion: v1'; echo 'beforeHelm: {order}'; exit; }}\necho {path}",
            path=path,
        )
    hooks = await runner.discover(package.root, sorted(orders))
    for hook in hooks_for(hooks, Binding.BEFORE_HELM):
        await runner.run(runs[hook.path])
    assert lines() == ["hooks/a.sh", "hooks/b.sh", "hooks/0-last.sh"]


async def test_parallel_runs_keep_apart_and_take_turns(
    tmp_path: Path, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    package.write("true")
    async with HookRunner(settings(tmp_path, concurrency=2), environment=dict(os.environ)) as runner:
        script = """
        echo "$WINDLASS_PACKAGE" > "$TMPDIR/mine"; sleep 0.3; cat "$TMPDIR/mine"
        echo "{\\"op\\":\\"add\\",\\"path\\":\\"/x\\",\\"value\\":\\"$WINDLASS_PACKAGE\\"}" > "$VALUES_JSON_PATCH_PATH"
        """
        runs = [package.hook_run(script, package_id=f"prod.p{n}") for n in range(4)]
        started = time.monotonic()
        outputs = await asyncio.gather(*[runner.run(run) for run in runs])
        elapsed = time.monotonic() - started
    assert [output.values_patch[0]["value"] for output in outputs] == [run.package_id for run in runs]
    assert sorted(lines()) == sorted(run.package_id for run in runs)
    assert elapsed >= 0.6  # two at a time


async def test_waiting_for_a_turn_does_not_count_as_running(tmp_path: Path, package: HookPackage) -> None:
    async with HookRunner(settings(tmp_path, concurrency=1), environment=dict(os.environ)) as runner:
        first, second = (package.hook_run("sleep 0.6", timeout=1.0) for _ in range(2))
        await asyncio.gather(runner.run(first), runner.run(second))


async def test_python_hooks_run_under_the_packages_own_python(
    runner: HookRunner, package: HookPackage, lines: Callable[[], list[str]]
) -> None:
    path = package.write("", path="hooks/tool.py")
    (package.root / path).write_text("#!/bin/sh\necho by the first line $#\n")
    run = package.run_of(path)
    await runner.run(run)
    package.write('echo "by $0 with $(basename "$1") home [$PYTHONHOME]"', path="hooks/venv/bin/python3")
    await runner.run(run)
    package.write("", path="hooks/venv/lib/python3.13/os.py")
    await runner.run(run)
    venv = package.root / "hooks/venv"
    assert lines() == [
        "by the first line 0",
        f"by {venv}/bin/python3 with tool.py home []",
        f"by {venv}/bin/python3 with tool.py home [{venv}]",
    ]


async def test_the_runs_folder_is_closed_and_left_empty(tmp_path: Path, package: HookPackage) -> None:
    root = tmp_path / "runs"
    async with HookRunner(settings(tmp_path), environment={}) as runner:
        assert stat.S_IMODE(root.stat().st_mode) == (
            0o700 if os.getuid() else 0o711
        )  # other users pass, and list nothing
        await runner.run(package.hook_run("true"))
        (own,) = root.iterdir()
        assert list(own.iterdir()) == []
    assert list(root.iterdir()) == []


async def test_a_second_worker_leaves_the_living_alone_and_sweeps_the_dead(
    tmp_path: Path, package: HookPackage
) -> None:
    root = tmp_path / "runs"
    async with HookRunner(settings(tmp_path), environment={}):
        (living,) = root.iterdir()
        dead = root / "worker-dead"
        (dead / "run-1").mkdir(parents=True)
        (dead / "run-1" / "values.json").write_text("{}")
        async with HookRunner(settings(tmp_path), environment={}) as second:
            assert not dead.exists()
            assert living.exists()
            await second.run(package.hook_run("true"))
        assert list(root.iterdir()) == [living]


def test_graces_leave_room_for_the_promises() -> None:
    assert process.CANCEL_GRACE < 2
    assert process.TIMEOUT_GRACE == 3


async def test_a_full_disk_is_a_failure_that_passes(tmp_path: Path, package: HookPackage) -> None:
    run = package.hook_run("true", values={"padding": "x" * 300_000})
    if os.getuid():
        pytest.skip("mounts a file system of its own")
    small = tmp_path / "small"
    small.mkdir()
    kernel.mount("none", str(small), "tmpfs", 0, "size=64k,mode=755")
    try:
        async with HookRunner(settings(tmp_path, runs="small/runs"), environment={}) as runner:
            with pytest.raises(TransientError, match="cannot be run: No space left on device"):
                await runner.run(run)
            assert not list(small.glob("runs/worker-*/*"))
    finally:
        await (await asyncio.create_subprocess_exec("umount", small)).wait()
