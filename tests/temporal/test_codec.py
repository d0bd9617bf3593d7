from __future__ import annotations

import os
import zlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload

from windlass.domain.errors import PermanentError, Reason
from windlass.temporal.codec import ENCODING, KEY_ID, MAX_PLAIN, PayloadCodec
from windlass.temporal.keyring import Keyring

KEYRING = Keyring(current="new", keys={"old": b"o" * 32, "new": b"n" * 32}, digest_key=b"d" * 32)
CODEC = PayloadCodec(KEYRING)

payloads = st.builds(
    Payload,
    metadata=st.dictionaries(st.text(max_size=20), st.binary(max_size=40), max_size=4).filter(
        lambda m: KEY_ID not in m
    ),
    data=st.binary(max_size=2000) | st.binary(max_size=50).map(lambda part: part * 100),
)


async def _encoded(payload: Payload, codec: PayloadCodec = CODEC) -> Payload:
    (encoded,) = await codec.encode([payload])
    return encoded


async def _decoded(payload: Payload, codec: PayloadCodec = CODEC) -> Payload:
    (decoded,) = await codec.decode([payload])
    return decoded


@given(batch=st.lists(payloads, max_size=5))
async def test_decode_reverses_encode(batch: list[Payload]) -> None:
    encoded = await CODEC.encode(batch)
    assert await CODEC.decode(encoded) == batch
    for payload in encoded:
        assert dict(payload.metadata) == {"encoding": ENCODING, KEY_ID: b"new"}


@given(payload=payloads, bit=st.integers(min_value=0))
async def test_any_bit_flip_in_the_data_is_an_error(payload: Payload, bit: int) -> None:
    encoded = await _encoded(payload)
    data = bytearray(encoded.data)
    position = bit % (len(data) * 8)
    data[position // 8] ^= 1 << (position % 8)
    with pytest.raises(PermanentError, match="does not decrypt"):
        await _decoded(Payload(metadata=encoded.metadata, data=bytes(data)))


@given(payload=payloads, bit=st.integers(min_value=0), field=st.sampled_from(["encoding", KEY_ID]))
async def test_any_bit_flip_in_the_metadata_is_an_error(payload: Payload, bit: int, field: str) -> None:
    encoded = await _encoded(payload)
    value = bytearray(encoded.metadata[field])
    position = bit % (len(value) * 8)
    value[position // 8] ^= 1 << (position % 8)
    with pytest.raises(PermanentError):
        await _decoded(Payload(metadata={**encoded.metadata, field: bytes(value)}, data=encoded.data))


@given(payload=payloads, kept=st.floats(min_value=0, max_value=1, exclude_max=True))
async def test_a_truncated_payload_is_an_error(payload: Payload, kept: float) -> None:
    encoded = await _encoded(payload)
    with pytest.raises(PermanentError, match="does not decrypt"):
        await _decoded(Payload(metadata=encoded.metadata, data=encoded.data[: int(len(encoded.data) * kept)]))


async def test_the_key_id_is_bound_to_the_ciphertext() -> None:
    same_key_twice = PayloadCodec(Keyring(current="a", keys={"a": b"x" * 32, "b": b"x" * 32}, digest_key=b"d" * 32))
    encoded = await _encoded(Payload(data=b"text"), same_key_twice)
    moved = Payload(metadata={**encoded.metadata, KEY_ID: b"b"}, data=encoded.data)
    with pytest.raises(PermanentError, match="'b'"):
        await _decoded(moved, same_key_twice)


async def test_the_encoding_and_key_id_cannot_be_dropped() -> None:
    encoded = await _encoded(Payload(data=b"text"))
    for field in ("encoding", KEY_ID):
        rest = {name: value for name, value in encoded.metadata.items() if name != field}
        with pytest.raises(PermanentError, match="lost its encoding or its key id"):
            await _decoded(Payload(metadata=rest, data=encoded.data))


async def test_an_unknown_key_is_named_with_what_to_do() -> None:
    foreign = PayloadCodec(Keyring(current="k-77", keys={"k-77": b"f" * 32}, digest_key=b"d" * 32))
    with pytest.raises(PermanentError, match=r"'k-77'.*add 'k-77' to the keyring's `keys`") as refusal:
        await _decoded(await _encoded(Payload(data=b"text"), foreign))
    assert refusal.value.reason is Reason.STATE_REJECTED


async def test_another_key_under_the_same_id_is_an_error() -> None:
    impostor = PayloadCodec(Keyring(current="new", keys={"new": b"i" * 32}, digest_key=b"d" * 32))
    with pytest.raises(PermanentError, match="another key was used under that id"):
        await _decoded(await _encoded(Payload(data=b"text")), impostor)


async def test_payloads_of_before_a_rotation_are_still_read() -> None:
    before = PayloadCodec(Keyring(current="old", keys={"old": b"o" * 32}, digest_key=b"d" * 32))
    assert await _decoded(await _encoded(Payload(data=b"text"), before)) == Payload(data=b"text")


async def test_what_was_never_encoded_passes_through() -> None:
    marker = Payload(metadata={"encoding": b"json/plain"}, data=b'{"id":"patch"}')
    assert await _decoded(marker) == marker


async def test_repetitive_content_is_compressed_and_random_content_is_not_inflated() -> None:
    big = await _encoded(Payload(data=b"windlass " * 10_000))
    assert len(big.data) < 1000
    noise = os.urandom(10_000)
    assert len((await _encoded(Payload(data=noise))).data) < len(noise) + 64


async def test_equal_payloads_look_different() -> None:
    assert (await _encoded(Payload(data=b"text"))).data != (await _encoded(Payload(data=b"text"))).data


async def test_oversized_content_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PermanentError, match=f"more than {MAX_PLAIN}.*by digest"):
        await _encoded(Payload(data=bytes(MAX_PLAIN + 1)))


async def test_unpacking_is_bounded() -> None:
    # Only a holder of the key can write this; it still must not fill the memory of every worker.
    cipher = AESGCM(KEYRING.keys["new"])
    bomb = b"\x01" + zlib.compress(bytes(MAX_PLAIN + 1))
    sealed = b"n" * 12 + cipher.encrypt(b"n" * 12, bomb, ENCODING + b"\x00new")
    with pytest.raises(PermanentError, match="unpacks to more than"):
        await _decoded(Payload(metadata={"encoding": ENCODING, KEY_ID: b"new"}, data=sealed))
