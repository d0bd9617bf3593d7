from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from windlass.domain.errors import Actor, PermanentError
from windlass.temporal.digest_key import ENVIRONMENT_FILE, ENVIRONMENT_TEXT, DigestKey


def test_generated_keys_differ_and_survive_their_document() -> None:
    one, other = DigestKey.generate(), DigestKey.generate()
    assert one.key != other.key
    assert DigestKey.parse(one.document(), origin="test") == one


def test_it_never_shows_itself() -> None:
    assert "DDDD" not in repr(DigestKey(b"D" * 32))


def test_created_once_with_mode_0600_by_many_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "digest-key"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(DigestKey.load_or_create, [path] * 16))
    assert all(key == keys[0] for key in keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "c2VjcmV0", "%%%", "sécret"])
def test_another_form_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(PermanentError) as refusal:
        DigestKey.parse(text, origin="the test")
    assert "the test" in str(refusal.value)
    assert not text or text not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.actor is Actor.ADMIN


def test_the_environment_names_a_file_or_holds_the_key(tmp_path: Path) -> None:
    key = DigestKey.load_or_create(tmp_path / "digest-key")
    assert DigestKey.from_environment({}) is None
    assert DigestKey.from_environment({ENVIRONMENT_FILE: str(tmp_path / "digest-key")}) == key
    assert DigestKey.from_environment({ENVIRONMENT_TEXT: key.document()}) == key
    with pytest.raises(PermanentError, match="both"):
        DigestKey.from_environment({ENVIRONMENT_FILE: "x", ENVIRONMENT_TEXT: key.document()})
