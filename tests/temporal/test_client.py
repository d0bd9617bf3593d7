from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import SOON
from windlass.devstack.stack import Stack
from windlass.domain.errors import PermanentError, Reason, TransientError
from windlass.temporal.client import TemporalTarget, connect
from windlass.temporal.keyring import Keyring

KEYRING = Keyring.generate()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def _refusal(address: str) -> TransientError:
    started = time.monotonic()
    with pytest.raises(TransientError) as refusal:
        await connect(TemporalTarget(address=address), keyring=KEYRING, role="test", timeout=1)
    assert time.monotonic() - started < SOON
    assert refusal.value.reason is Reason.API_UNAVAILABLE
    assert address in str(refusal.value)
    assert "windlass up" in str(refusal.value)
    return refusal.value


async def test_nobody_listening_is_said_in_time(closed_port: int) -> None:
    await _refusal(f"127.0.0.1:{closed_port}")


async def test_a_silent_server_is_said_in_time(silent_port: int) -> None:
    await _refusal(f"127.0.0.1:{silent_port}")


async def test_an_unknown_host_is_said_in_time() -> None:
    await _refusal("no-such-host.invalid:7233")


def test_without_an_address_nobody_brings_a_server(tmp_path: Path) -> None:
    assert TemporalTarget.from_environment({"TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml")}) is None


def test_variables_win_over_the_profile_file(tmp_path: Path) -> None:
    profiles = tmp_path / "temporal.toml"
    profiles.write_text(
        '[profile.default]\naddress = "file:7233"\nnamespace = "from-file"\n'
        '[profile.prod]\naddress = "prod:7233"\napi_key = "canary-key"\n'
    )
    environ = {"TEMPORAL_CONFIG_FILE": str(profiles), "TEMPORAL_NAMESPACE": "from-variable"}
    target = TemporalTarget.from_environment(environ)
    assert target == TemporalTarget(address="file:7233", namespace="from-variable")
    prod = TemporalTarget.from_environment(environ, profile="prod")
    assert prod is not None
    assert (prod.address, prod.api_key, prod.tls) == ("prod:7233", "canary-key", True)
    assert "canary-key" not in repr(prod)


def test_a_broken_profile_file_is_named(tmp_path: Path) -> None:
    profiles = tmp_path / "temporal.toml"
    profiles.write_text("[profile")
    with pytest.raises(PermanentError, match="TEMPORAL_CONFIG_FILE"):
        TemporalTarget.from_environment({"TEMPORAL_CONFIG_FILE": str(profiles)})


@pytest.mark.stack
async def test_an_unknown_namespace_is_named_with_the_command_that_makes_it(stack: Stack) -> None:
    target = TemporalTarget(address=stack.temporal_address, namespace="nowhere")
    with pytest.raises(PermanentError, match=r"'nowhere'.*namespace create --namespace nowhere"):
        await connect(target, keyring=KEYRING, role="test")


@pytest.mark.stack
async def test_the_identity_tells_role_host_and_process(stack: Stack) -> None:
    client = await connect(TemporalTarget(address=stack.temporal_address), keyring=KEYRING, role="watcher")
    assert client.identity.startswith(f"windlass-watcher@{socket.gethostname()}:")
    assert client.namespace == "default"
