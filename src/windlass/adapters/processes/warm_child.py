"""What a warm child needs on its side; light, because a child imports it before its library."""

from __future__ import annotations

import os
from typing import BinaryIO, Final, cast

READY: Final = b"ready\n"
"""What a child writes once it can take requests."""


def claim_stdout() -> BinaryIO:
    """Keep stdout for replies and send everything else that writes to it to stderr."""
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return cast("BinaryIO", replies)
