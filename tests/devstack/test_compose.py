"""What `docker-compose.temporal.yml` sets up is what Windlass needs; Docker itself is not asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.cli.context import METRICS_ADDRESS
from windlass.cli.registry import GROUPS
from windlass.devstack import parts
from windlass.temporal.search_attributes import as_flags

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.temporal.yml").read_text())


def test_it_registers_the_search_attributes_of_the_code(compose: dict[str, Any]) -> None:
    script = compose["services"]["namespace"]["command"][0]
    assert dict(re.findall(r"(Windlass\w+)=(\w+)", script)) == as_flags()


def test_it_has_the_dynamic_settings_of_the_embedded_server(compose: dict[str, Any]) -> None:
    settings = yaml.safe_load(compose["configs"]["dynamicconfig"]["content"])
    ours = {f"{name}={str(value[0]['value']).lower()}" for name, value in settings.items()}
    assert ours == set(parts.TEMPORAL_DYNAMIC)


def test_images_are_pinned_and_servers_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert re.fullmatch(r"[a-z/-]+:\d+(\.\d+)+", service["image"]), name
        if service.get("restart") == "unless-stopped":
            assert "healthcheck" in service, name
        for other in service.get("depends_on", {}):
            assert other in compose["services"]


def test_what_ends_is_waited_for_by_what_runs(compose: dict[str, Any]) -> None:
    """Else `docker compose up --wait` takes the end of a service for a failure, with the profile or without."""
    services = compose["services"]
    ending = {name for name, one in services.items() if one.get("restart") != "unless-stopped"}
    assert ending == {"schema", "namespace"}
    awaited = {
        other
        for one in services.values()
        if not one.get("profiles")
        for other, how in one.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    assert awaited == ending


def test_nothing_is_reachable_from_outside_unless_asked(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${TEMPORAL_BIND:-127.0.0.1}:") for port in published)


def test_the_profile_runs_what_there_is(compose: dict[str, Any]) -> None:
    ours = {name: one for name, one in compose["services"].items() if one.get("profiles") == ["windlass"]}
    assert set(ours) == {"worker", "watcher"}
    for service in ours.values():
        assert service["command"][0] in GROUPS["Processes"]
        assert (ROOT / service["build"]["dockerfile"]).exists()
        named = {name for name in service["environment"] if name.startswith("WINDLASS_")}
        assert named <= {METRICS_ADDRESS, "WINDLASS_KEYRING_FILE", "WINDLASS_DIGEST_KEY_FILE"}
        assert {volume.split(":")[0] for volume in service["volumes"] if isinstance(volume, str)} <= set(
            compose["volumes"]
        )


def test_the_image_is_made_of_pinned_ones() -> None:
    bases = re.findall(r"^(?:FROM|COPY --from=)\s*(\S+:\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert len(bases) >= 3
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)


def test_the_profile_stays_out_unless_asked_for(compose: dict[str, Any]) -> None:
    plain = [name for name, one in compose["services"].items() if not one.get("profiles")]
    assert not {other for name in plain for other in compose["services"][name].get("depends_on", {})} - set(plain)
