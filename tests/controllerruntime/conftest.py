"""Real servers for the controller runtime."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from support.nats import NatsServer, nats_server
from windlass.adapters.nats.connection import NatsConnection, connected

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server that nobody kills; buckets are everybody's own."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture
async def connection(server: NatsServer) -> AsyncIterator[NatsConnection]:
    async with connected(server.access) as opened:
        yield opened


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Names that nobody else has."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"
