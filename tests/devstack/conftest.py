from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from support.cluster import kubectl
from windlass.devstack.stack import Stack


@pytest.fixture
def namespace(stack: Stack) -> Iterator[str]:
    """A namespace of its own on the session's stack."""
    name = f"devstack-{uuid.uuid4().hex[:6]}"
    kubectl(stack, "create", "namespace", name)
    yield name
    kubectl(stack, "delete", "namespace", name, "--wait=false")
