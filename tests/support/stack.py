"""The embedded stack of a test run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass.devstack.stack import Stack, StackOptions

REUSE = "WINDLASS_TEST_STACK"
"""Environment variable with the data directory (or state file) of a stack that runs already.

`windlass up --detach --data-dir DIR` once, then ``WINDLASS_TEST_STACK=DIR pytest ...`` saves its start each time.
Tests share it then with whatever else uses it, so they make namespaces and workflow ids of their own.
"""

CLUSTERS = 2
"""Clusters beside the management cluster; each starts with the first test that asks for it."""

OWN_ETCD = (2,)
"""Those of them that can be emptied."""


@contextmanager
def session_stack(folder: Path) -> Iterator[Stack]:
    """Give the stack that `REUSE` names when it runs; otherwise one of our own, below ``folder``."""
    if named := os.environ.get(REUSE):
        path = Path(named)
        yield Stack.attach(path.parent if path.is_file() else path)
        return
    with Stack.start(
        folder, options=StackOptions(clusters=CLUSTERS, own_etcd=OWN_ETCD, on_demand=True), report=print
    ) as stack:
        yield stack
