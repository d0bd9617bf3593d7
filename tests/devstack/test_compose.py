"""What `docker-compose.temporal.yml` sets up is what Windlass needs; Docker itself is not asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_nothing_is_reachable_from_outside_unless_asked(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${TEMPORAL_BIND:-127.0.0.1}:") for port in published)
