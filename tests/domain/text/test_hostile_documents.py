"""Documents that were written to end or to fill the process that reads them."""

from __future__ import annotations

import json
import subprocess
import sys

from support import hostile

DOCUMENTS = 20_000
MEGABYTES = 150
"""The interpreter with our modules takes 40; the limits in the child allow a text of 1 MB and 50,000 nodes."""


def test_hostile_documents_end_no_process_and_take_little_memory() -> None:
    command = [sys.executable, hostile.__file__, str(DOCUMENTS), "1"]

    child = subprocess.run(command, capture_output=True, text=True, check=False)

    assert child.returncode == 0, child.stderr[-2000:]
    told = json.loads(child.stdout)
    assert told["read"] + told["refused"] == DOCUMENTS
    assert min(told["read"], told["refused"]) > DOCUMENTS / 20
    assert told["megabytes"] < MEGABYTES
