"""``windlass values``: the values of the stored release, secrets hidden."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import yaml

from windlass.contracts.objects import Application
from windlass.domain.errors import PermanentError
from windlass.observers.inspection.values import HIDDEN, release_values
from windlass.ports.helm import ReleaseRef
from windlass.ports.kube import Object, ObjectList

SETTINGS = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "default": "Hello"},
        "pin": {"type": "integer"},
        "login": {"type": "object", "properties": {"code": {"type": "string", "format": "password"}}},
        "keys": {"type": "array", "items": {"type": "string", "x-windlass-secret": True}},
        "adminToken": {"type": "string"},
        "host": {"type": "string"},
    },
}


@dataclass
class Releases:
    """As much of the API as is asked here: the Secrets of Helm."""

    items: list[Object] = field(default_factory=list[Object])

    async def list(self, *_: object, **__: object) -> ObjectList:
        return ObjectList(items=self.items, resource_version="1")


def stored(revision: int, config: Object, static: Object | None = None) -> Object:
    schema = base64.b64encode(yaml.safe_dump(SETTINGS).encode()).decode()
    chart = {"values": static or {}, "files": [{"name": "openapi/settings.yaml", "data": schema}]}
    packed = base64.b64encode(gzip.compress(json.dumps({"config": config, "chart": chart}).encode()))
    labels = {"version": str(revision)}
    return {"metadata": {"labels": labels}, "data": {"release": base64.b64encode(packed).decode()}}


async def shown(
    *secrets: Object, settings: Object | None = None, sources: list[Object] | None = None, clear: bool = False
) -> Object:
    package = {"repository": "r", "name": "p", "version": "1.0.0"}
    application = Application.model_validate(
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"package": package, "settings": settings or {}, "valuesFrom": sources or []},
        }
    )
    release = ReleaseRef(target=application.placement().target, name="web")
    return await release_values(cast("Any", Releases(list(secrets))), release, application, show_secrets=clear)


async def test_the_newest_revision_counts_and_nulls_drop_the_charts_own_values() -> None:
    found = await shown(stored(9, {"a": 1}), stored(10, {"a": 2, "gone": None}, {"gone": "x", "kept": "y"}))
    assert found == {"a": 2, "kept": "y"}


async def test_marked_fields_and_fields_called_like_a_secret_are_hidden() -> None:
    values = {"title": "t", "login": {"code": "s3cret"}, "keys": ["k1"], "adminToken": "abc"}
    found = await shown(stored(1, values), settings=values)
    assert found == {"title": "t", "login": {"code": HIDDEN}, "keys": [HIDDEN], "adminToken": HIDDEN}
    assert await shown(stored(1, values), clear=True) == values


async def test_with_settings_from_a_secret_only_what_is_known_to_be_public_is_shown() -> None:
    """Also numbers, and also when the Secret holds something else by now: it is not asked."""
    values = {"title": "Hello", "host": "db", "pin": 4711, "port": 80, "list": ["a"]}
    source = {"kind": "Secret", "name": "s"}
    found = await shown(stored(1, values, {"port": 80}), settings={"host": "db"}, sources=[source])
    assert found == {"title": "Hello", "host": "db", "pin": HIDDEN, "port": 80, "list": [HIDDEN]}


async def test_settings_from_a_config_map_are_shown() -> None:
    source = {"kind": "ConfigMap", "name": "s"}
    assert await shown(stored(1, {"pin": 4711}), sources=[source]) == {"pin": 4711}


async def test_without_a_release_it_says_where_to_look() -> None:
    with pytest.raises(PermanentError, match="has no release yet") as raised:
        await shown()
    assert "windlass describe web" in raised.value.hint
