from __future__ import annotations

import os
import zlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload

from windlass.domain.errors import PermanentError, Reason
from windlass.temporal.keyring import Keyring
from windlass.temporal.sealing import ENCODING, KEY_ID, MAX_PLAIN, WORKFLOW_ID, Binding, Sealer, associated

KEYRING = Keyring(current="new", keys={"old": b"o" * 32, "new": b"n" * 32})
SEALER = Sealer(KEYRING)
HERE = Binding("default", "windlass/package/prod.billing")

payloads = st.builds(
    Payload,
    metadata=st.dictionaries(st.text(max_size=20), st.binary(max_size=40), max_size=4).filter(
        lambda m: KEY_ID not in m
    ),
    data=st.binary(max_size=2000) | st.binary(max_size=50).map(lambda part: part * 100),
)


def _sealed(payload: Payload, sealer: Sealer = SEALER) -> Payload:
    return sealer.seal(payload, HERE)


def _opened(payload: Payload, sealer: Sealer = SEALER) -> Payload:
    return sealer.open(payload, HERE)


@given(payload=payloads, namespace=st.text(), workflow_id=st.text())
def test_open_reverses_seal(payload: Payload, namespace: str, workflow_id: str) -> None:
    binding = Binding(namespace, workflow_id)
    sealed = SEALER.seal(payload, binding)
    assert SEALER.open(sealed, binding) == payload
    assert dict(sealed.metadata) == {"encoding": ENCODING, KEY_ID: b"new", WORKFLOW_ID: workflow_id.encode()}


names = st.text(alphabet="ab/\x00", max_size=4)


@given(sealed_for=st.builds(Binding, names, names), opened_for=st.builds(Binding, names, names))
def test_a_payload_opens_in_its_own_namespace_and_workflow_only(sealed_for: Binding, opened_for: Binding) -> None:
    sealed = SEALER.seal(Payload(data=b"text"), sealed_for)
    if sealed_for == opened_for:
        assert SEALER.open(sealed, opened_for) == Payload(data=b"text")
        return
    with pytest.raises(PermanentError) as refusal:
        SEALER.open(sealed, opened_for)
    assert refusal.value.reason is Reason.STATE_REJECTED


def test_a_payload_copied_from_another_workflow_says_which() -> None:
    copied = SEALER.seal(Payload(data=b"text"), Binding("default", "windlass/package/test.billing"))
    with pytest.raises(PermanentError, match=r"for the workflow 'windlass/package/test\.billing' and not for"):
        _opened(copied)


def test_the_workflow_id_in_the_metadata_cannot_be_exchanged() -> None:
    copied = SEALER.seal(Payload(data=b"text"), Binding("default", "other"))
    copied.metadata[WORKFLOW_ID] = HERE.workflow_id.encode()
    with pytest.raises(PermanentError, match="does not decrypt"):
        _opened(copied)


def test_a_long_foreign_name_is_cut_in_the_message() -> None:
    payload = Payload(metadata={"encoding": ENCODING, KEY_ID: b"k" * 100_000, WORKFLOW_ID: HERE.workflow_id.encode()})
    with pytest.raises(PermanentError) as refusal:
        _opened(payload)
    assert len(str(refusal.value)) < 500


@given(payload=payloads, bit=st.integers(min_value=0))
def test_any_bit_flip_in_the_data_is_an_error(payload: Payload, bit: int) -> None:
    encoded = _sealed(payload)
    data = bytearray(encoded.data)
    position = bit % (len(data) * 8)
    data[position // 8] ^= 1 << (position % 8)
    with pytest.raises(PermanentError, match="does not decrypt"):
        _opened(Payload(metadata=encoded.metadata, data=bytes(data)))


@given(payload=payloads, bit=st.integers(min_value=0), field=st.sampled_from(["encoding", KEY_ID, WORKFLOW_ID]))
def test_any_bit_flip_in_the_metadata_is_an_error(payload: Payload, bit: int, field: str) -> None:
    encoded = _sealed(payload)
    value = bytearray(encoded.metadata[field])
    position = bit % (len(value) * 8)
    value[position // 8] ^= 1 << (position % 8)
    with pytest.raises(PermanentError):
        _opened(Payload(metadata={**encoded.metadata, field: bytes(value)}, data=encoded.data))


@given(payload=payloads, kept=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_a_truncated_payload_is_an_error(payload: Payload, kept: float) -> None:
    encoded = _sealed(payload)
    with pytest.raises(PermanentError, match="does not decrypt"):
        _opened(Payload(metadata=encoded.metadata, data=encoded.data[: int(len(encoded.data) * kept)]))


def test_the_key_id_is_bound_to_the_ciphertext() -> None:
    same_key_twice = Sealer(Keyring(current="a", keys={"a": b"x" * 32, "b": b"x" * 32}))
    encoded = _sealed(Payload(data=b"text"), same_key_twice)
    moved = Payload(metadata={**encoded.metadata, KEY_ID: b"b"}, data=encoded.data)
    with pytest.raises(PermanentError, match="'b'"):
        _opened(moved, same_key_twice)


def test_the_encoding_and_key_id_cannot_be_dropped() -> None:
    encoded = _sealed(Payload(data=b"text"))
    for field in ("encoding", KEY_ID):
        rest = {name: value for name, value in encoded.metadata.items() if name != field}
        with pytest.raises(PermanentError, match="lost its encoding or its key id"):
            _opened(Payload(metadata=rest, data=encoded.data))


def test_an_unknown_key_is_named_with_what_to_do() -> None:
    foreign = Sealer(Keyring(current="k-77", keys={"k-77": b"f" * 32}))
    with pytest.raises(PermanentError, match=r"'k-77'.*add 'k-77' to the keyring's `keys`") as refusal:
        _opened(_sealed(Payload(data=b"text"), foreign))
    assert refusal.value.reason is Reason.STATE_REJECTED


def test_another_key_under_the_same_id_is_an_error() -> None:
    impostor = Sealer(Keyring(current="new", keys={"new": b"i" * 32}))
    with pytest.raises(PermanentError, match="another key was used under that id"):
        _opened(_sealed(Payload(data=b"text")), impostor)


def test_payloads_of_before_a_rotation_are_still_read() -> None:
    before = Sealer(Keyring(current="old", keys={"old": b"o" * 32}))
    assert _opened(_sealed(Payload(data=b"text"), before)) == Payload(data=b"text")


def test_what_was_never_sealed_is_an_error() -> None:
    with pytest.raises(PermanentError, match="is not encoded"):
        _opened(Payload(metadata={"encoding": b"json/plain"}, data=b'{"id":"patch"}'))


def test_repetitive_content_is_compressed_and_random_content_is_not_inflated() -> None:
    big = _sealed(Payload(data=b"windlass " * 10_000))
    assert len(big.data) < 1000
    noise = os.urandom(10_000)
    assert len((_sealed(Payload(data=noise))).data) < len(noise) + 64


def test_equal_payloads_look_different() -> None:
    assert (_sealed(Payload(data=b"text"))).data != (_sealed(Payload(data=b"text"))).data


def test_oversized_content_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PermanentError, match=f"more than {MAX_PLAIN}.*by digest"):
        _sealed(Payload(data=bytes(MAX_PLAIN + 1)))


def test_unpacking_is_bounded() -> None:
    # Only a holder of the key can write this; it still must not fill the memory of every worker.
    cipher = AESGCM(KEYRING.keys["new"])
    bomb = b"\x01" + zlib.compress(bytes(MAX_PLAIN + 1))
    sealed = b"n" * 12 + cipher.encrypt(b"n" * 12, bomb, associated(b"new", HERE))
    with pytest.raises(PermanentError, match="unpacks to more than"):
        _opened(
            Payload(
                metadata={"encoding": ENCODING, KEY_ID: b"new", WORKFLOW_ID: HERE.workflow_id.encode()}, data=sealed
            )
        )
