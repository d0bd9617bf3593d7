"""`windlass render`: what-if settings, and that nothing secret is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.cli.inspect.render import what_if
from windlass.domain.errors import PermanentError
from windlass.observers.inspection.masking import HIDDEN, masked


def test_files_then_set_later_ones_win(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("replicas: 1\ncache: {host: a, port: 1}\n")
    (tmp_path / "b.yaml").write_text("cache: {host: b}\n")
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    found = what_if(files, ["cache.port=7", "title=a=b", "on=true", "empty="])
    assert found == {"replicas": 1, "cache": {"host": "b", "port": 7}, "title": "a=b", "on": True, "empty": ""}
    assert what_if([], []) == {}


@pytest.mark.parametrize("pair", ["replicas", "=3", "a..b=1", ".a=1"])
def test_a_setting_that_is_none_is_refused(pair: str) -> None:
    with pytest.raises(PermanentError, match="is not PATH=VALUE"):
        what_if([], [pair])


@pytest.mark.parametrize(("text", "says"), [("- a", "no mapping"), ("a: [", "a.yaml"), ("a: 1\na: 2", "a.yaml")])
def test_a_file_that_is_no_settings_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(PermanentError, match=says):
        what_if([tmp_path / "a.yaml"], [])
    with pytest.raises(PermanentError, match="cannot be read"):
        what_if([tmp_path / "none.yaml"], [])


def test_the_data_of_a_secret_is_hidden() -> None:
    secret: dict[str, Any] = {
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "eA=="},
        "stringData": {"b": "x"},
    }
    assert masked(secret, {}) == {
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": HIDDEN},
        "stringData": {"b": HIDDEN},
    }
    assert secret["data"] == {"a": "eA=="}


def test_what_came_from_secrets_is_hidden_wherever_a_chart_put_it() -> None:
    concealed = {"login": {"password": "s3cret", "pins": [123456], "on": True, "ab": "ab"}}
    obj = {"kind": "ConfigMap", "data": {"url": "https://me:s3cret@host", "pin": 123456, "on": True, "ab": "ab"}}
    assert masked(obj, concealed)["data"] == {"url": f"https://me:{HIDDEN}@host", "pin": HIDDEN, "on": True, "ab": "ab"}
