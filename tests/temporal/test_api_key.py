"""A Temporal that lets in by key, as Temporal Cloud does: what it is sent, and what is said when it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from replay.keyring import REPLAY_KEYRING
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    GetSystemInfoRequest,
    GetSystemInfoResponse,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import (
    WorkflowServiceServicer,
    add_WorkflowServiceServicer_to_server,
)

from support.tls import Identity, identity
from windlass.cli.context import Context
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.temporal.client import TemporalTarget, connect

KEY = "key-of-the-test"


@dataclass
class Cloud(WorkflowServiceServicer):
    """Answers what a client asks first, to whoever brings the key."""

    address: str = ""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def _let_in(self, context: grpc.ServicerContext) -> None:
        sent = {str(name): str(value) for name, value in context.invocation_metadata()}
        self.headers.append(sent)
        if sent.get("authorization") != f"Bearer {KEY}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    def GetSystemInfo(self, request: GetSystemInfoRequest, context: Any) -> GetSystemInfoResponse:  # noqa: ARG002, N802 - the service's own
        self._let_in(context)
        return GetSystemInfoResponse()

    def DescribeNamespace(self, request: DescribeNamespaceRequest, context: Any) -> DescribeNamespaceResponse:  # noqa: ARG002, N802
        self._let_in(context)
        return DescribeNamespaceResponse()


@pytest.fixture(scope="module")
def authority() -> Identity:
    return identity("authority")


@pytest.fixture
def cloud(authority: Identity) -> Iterator[Cloud]:
    own = identity("server", authority)
    made = Cloud()
    server = grpc.server(ThreadPoolExecutor(2))
    add_WorkflowServiceServicer_to_server(made, server)
    credentials = grpc.ssl_server_credentials([(own.key_pem, own.certificate_pem)])
    made.address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait()


@pytest.fixture
def environ(cloud: Cloud, authority: Identity, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    return {
        "TEMPORAL_ADDRESS": cloud.address,
        "TEMPORAL_NAMESPACE": "team.abc",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(tmp_path / "ca.crt"),
        "TEMPORAL_CONFIG_FILE": str(tmp_path / "none.toml"),
    }


async def connected(environ: dict[str, str], tmp_path: Path) -> None:
    await connect(Context.find(tmp_path, environ).temporal, keyring=REPLAY_KEYRING, role="test", timeout=10)


async def test_the_key_of_the_environment_goes_with_every_call(
    cloud: Cloud, environ: dict[str, str], tmp_path: Path
) -> None:
    await connected({**environ, "TEMPORAL_API_KEY": KEY, "TEMPORAL_GRPC_META_TEAM": "blue"}, tmp_path)
    assert len(cloud.headers) >= 2
    assert {sent.get("authorization") for sent in cloud.headers} == {f"Bearer {KEY}"}
    assert {sent.get("temporal-namespace") for sent in cloud.headers[1:]} == {"team.abc"}
    assert {sent.get("team") for sent in cloud.headers} == {"blue"}


async def test_the_key_of_a_profile_does_too(cloud: Cloud, environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        f"""
[profile.cloud]
address = "{cloud.address}"
namespace = "team.abc"
api_key = "{KEY}"
[profile.cloud.tls]
server_ca_cert_path = "{environ["TEMPORAL_TLS_SERVER_CA_CERT_PATH"]}"
"""
    )
    await connected({"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "cloud"}, tmp_path)
    assert {sent.get("authorization") for sent in cloud.headers} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("key", ["", "key-of-somebody-else"], ids=["none", "wrong"])
async def test_a_key_that_is_refused_says_what_to_check_and_not_what_it_is(
    cloud: Cloud, environ: dict[str, str], tmp_path: Path, key: str
) -> None:
    given = {**environ, "TEMPORAL_TLS": "true", **({"TEMPORAL_API_KEY": key} if key else {})}
    with pytest.raises(PermanentError) as refused:
        await connected(given, tmp_path)
    assert (refused.value.reason, refused.value.actor) == (Reason.FORBIDDEN, Actor.ADMIN)
    assert cloud.address in refused.value.message
    assert "TEMPORAL_API_KEY" in refused.value.hint
    assert "key-of" not in str(refused.value)


def test_a_key_shows_nowhere(environ: dict[str, str]) -> None:
    target = TemporalTarget.from_environment({**environ, "TEMPORAL_API_KEY": KEY})
    assert target is not None
    assert target.api_key == KEY
    assert KEY not in repr(target)
