from __future__ import annotations

import base64
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from windlass.domain.errors import Actor, PermanentError
from windlass.temporal.keyring import ENVIRONMENT_FILE, ENVIRONMENT_TEXT, Keyring


def test_generated_keyrings_differ_and_survive_their_document() -> None:
    one, other = Keyring.generate(), Keyring.generate()
    assert one.keys != other.keys
    assert Keyring.parse(one.document(), origin="test") == one


def test_yaml_is_read_too() -> None:
    key = base64.b64encode(b"k" * 32).decode()
    ring = Keyring.parse(f"current: b\nkeys:\n  a: {key}\n  b: {key}\n", origin="test")
    assert ring.current == "b"
    assert set(ring.keys) == {"a", "b"}


def test_a_keyring_never_shows_its_keys() -> None:
    ring = Keyring(current="a", keys={"a": b"A" * 32})
    assert "AAAA" not in f"{ring!r} {ring}"


def test_created_once_with_mode_0600_by_many_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keyring.json"
    with ThreadPoolExecutor(8) as pool:
        rings = list(pool.map(Keyring.load_or_create, [path] * 16))
    assert all(ring == rings[0] for ring in rings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keyring.json"]


def _document(**changes: object) -> str:
    fields: dict[str, object] = json.loads(Keyring.generate().document())
    return json.dumps({**fields, **changes})


SECRET = "c2VjcmV0LXZhbHVlLWluLWEta2V5cmluZw"  # 25 bytes: the right form, the wrong length


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"keys: [{SECRET}", "neither YAML nor JSON"),
        (SECRET, "not a mapping"),
        (_document(keys={}), "has no `keys`"),
        (_document(keys=[SECRET]), "has no `keys`"),
        (_document(keys={"a": SECRET}), "`keys.a` is not 32 bytes in base64"),
        (_document(keys={"a": 7}), "`keys.a` is not 32 bytes in base64"),
        (_document(keys={"a b": SECRET}), "key id"),
        (_document(keys={"": SECRET}), "key id"),
        (_document(current="gone"), "`current` does not name"),
    ],
    ids=[
        "unclosed",
        "text",
        "no keys",
        "list of keys",
        "short key",
        "number for a key",
        "space in an id",
        "empty id",
        "unknown current",
    ],
)
def test_a_wrong_document_is_refused_without_being_quoted(text: str, complaint: str) -> None:
    with pytest.raises(PermanentError) as refusal:
        Keyring.parse(text, origin="the test")
    assert complaint in str(refusal.value)
    assert "the test" in str(refusal.value)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.actor is Actor.ADMIN


def test_the_environment_names_a_file_or_holds_the_document(tmp_path: Path) -> None:
    ring = Keyring.load_or_create(tmp_path / "keyring")
    assert Keyring.from_environment({}) is None
    assert Keyring.from_environment({ENVIRONMENT_FILE: str(tmp_path / "keyring")}) == ring
    assert Keyring.from_environment({ENVIRONMENT_TEXT: ring.document()}) == ring
    with pytest.raises(PermanentError, match="both"):
        Keyring.from_environment({ENVIRONMENT_FILE: "x", ENVIRONMENT_TEXT: ring.document()})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"nowhere.*No such file"):
        Keyring.load(tmp_path / "nowhere")


def test_a_file_of_other_bytes_is_refused_without_being_quoted(tmp_path: Path) -> None:
    (tmp_path / "keyring").write_bytes(b"\xff\xfe binary")
    with pytest.raises(PermanentError, match="not UTF-8") as refusal:
        Keyring.load(tmp_path / "keyring")
    assert refusal.value.__cause__ is None
