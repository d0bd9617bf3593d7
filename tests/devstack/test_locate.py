from __future__ import annotations

import itertools
from importlib.metadata import version
from pathlib import Path

import pytest

from windlass.devstack import paths
from windlass.devstack.errors import StackError
from windlass.devstack.programs import go
from windlass.devstack.programs.catalog import MODULES, TOOLS, Tool, parse_version
from windlass.devstack.programs.locate import Source, cached_path, locate

KUBECTL = TOOLS["kubectl"]


def program(folder: Path, version: str, name: str = KUBECTL.name) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho 'Client Version: v{version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def everywhere(tmp_path: Path) -> dict[str, Path]:
    """One fitting kubectl in every place that is searched."""
    cached = cached_path(KUBECTL, tmp_path / "cache")
    return {
        "setting": program(tmp_path / "setting", "1.20.0"),
        "assets": program(tmp_path / "assets", "1.36.1"),
        "path": program(tmp_path / "path", "1.36.2"),
        "cache": program(cached.parent, "1.36.3"),
    }


def test_the_order_is_setting_assets_path_cache(everywhere: dict[str, Path], tmp_path: Path) -> None:
    env = {
        "WINDLASS_TOOL_KUBECTL": str(everywhere["setting"]),
        "KUBEBUILDER_ASSETS": str(everywhere["assets"].parent),
        "PATH": str(everywhere["path"].parent),
    }
    met: list[tuple[Source, str]] = []
    for variable in (*env, None):
        found = locate(KUBECTL, tmp_path / "cache", env).found
        assert found is not None
        met.append((found.source, found.version))
        if variable is not None:
            del env[variable]
    assert met == [
        (Source.SETTING, "1.20.0"),  # whoever names a program gets it, whatever its version
        (Source.ASSETS, "1.36.1"),
        (Source.PATH, "1.36.2"),
        (Source.CACHE, "1.36.3"),
    ]


def test_another_minor_on_path_is_passed_over_and_named(tmp_path: Path) -> None:
    old = program(tmp_path / "old", "1.35.9")
    fitting = program(tmp_path / "new", "1.36.0")
    location = locate(KUBECTL, tmp_path / "cache", {"PATH": f"{old.parent}:{fitting.parent}"})
    assert location.found is not None
    assert location.found.path == fitting
    assert location.rejected == (f"{old} (PATH) is 1.35.9, wanted >=1.36,<1.37",)


def test_a_program_that_does_not_say_its_version_is_passed_over(tmp_path: Path) -> None:
    broken = program(tmp_path / "broken", "1.36.0")
    broken.write_text("#!/bin/sh\nexit 3\n")
    location = locate(KUBECTL, tmp_path / "cache", {"PATH": str(broken.parent)})
    assert location.found is None
    assert location.rejected == (f"{broken} (PATH) does not say its version",)


def test_assets_count_for_the_control_plane_only(tmp_path: Path) -> None:
    helm = program(tmp_path / "assets", "4.2.1", "helm")
    assert locate(TOOLS["helm"], tmp_path / "cache", {"KUBEBUILDER_ASSETS": str(helm.parent)}).found is None


def test_a_setting_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"WINDLASS_TOOL_KUBECTL names .*nowhere"):
        locate(KUBECTL, tmp_path, {"WINDLASS_TOOL_KUBECTL": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("etcd Version: 3.6.8\nGit SHA: 1\nGo Version: go1.26.8", (3, 6, 8)),
        ("Kubernetes v1.36.3", (1, 36, 3)),
        ("v4.2.1+g1", (4, 2, 1)),
        ("temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)", (1, 5, 1)),
        ("no number", None),
    ],
)
def test_versions_are_read_from_what_programs_print(output: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(output) == version


BUILT = [tool for tool in TOOLS.values() if not tool.wheel]
BROUGHT = [tool for tool in TOOLS.values() if tool.wheel]


@pytest.mark.parametrize("tool", BROUGHT, ids=lambda tool: tool.name)
def test_what_a_wheel_brings_is_found_beside_our_python(tool: Tool, tmp_path: Path) -> None:
    found = locate(tool, tmp_path, {}).found
    assert found is not None
    assert (found.version, found.source.value) == (tool.version, "PyPI"), "uv.lock and the catalogue differ"
    assert found.version == version(tool.wheel)


@pytest.mark.parametrize("tool", BUILT, ids=lambda tool: tool.name)
def test_the_catalogue_agrees_with_go_mod(tool: Tool) -> None:
    words = (paths.modules_dir() / tool.module / "go.mod").read_text().split()
    pinned = dict(itertools.pairwise(words))
    assert tool.module in MODULES
    assert pinned[tool.go_module] == f"v{tool.version}"
    assert tool.package in words
    assert tool.accepts(parse_version(tool.version) or ())
    lowest = parse_version(pinned["go"])
    assert lowest is not None
    assert lowest[:2] == go.LOWEST
