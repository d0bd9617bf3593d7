"""The messages between the pool and its child processes: one JSON object per line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from windlass.domain.packages.model import Values

MAX_REPLY: Final = 256 * 1024
"""Bytes of one reply line; error texts are cut in the child."""

MAX_TEXT: Final = 32 * 1024
"""Characters of an error text that a child hands over."""


class HelmFailedError(Exception):
    """Helm ended an operation with a failure; the text is Helm's own and may quote values."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One Helm operation.

    The child stages ``chart`` in ``folder`` with ``metadata`` as its ``Chart.yaml``. ``timeout`` is in whole seconds;
    ``surface`` counts known changes of the cluster's API.
    """

    operation: Literal["install", "upgrade", "uninstall"]
    kubeconfig: str
    namespace: str
    name: str
    chart: str = ""
    metadata: str = ""
    folder: str = ""
    values: Values = field(default_factory=dict[str, Any])
    history_max: int = 10
    timeout: int = 300
    surface: int = 0

    def line(self) -> bytes:
        """Encode as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Order:
        """Decode what `line` encoded."""
        return cls(**json.loads(line))


@dataclass(frozen=True, kw_only=True)
class Reply:
    """How an operation ended.

    ``error`` is Helm's text, empty on success. ``absent`` says that there was no such release: the one failure that
    the library tells apart by type.
    """

    error: str = ""
    absent: bool = False

    def line(self) -> bytes:
        """Encode as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Reply:
        """Decode what `line` encoded."""
        return cls(**json.loads(line))
