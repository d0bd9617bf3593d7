from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ctypes
from windlass.adapters.processes.leash import forbid_dumps
libc = ctypes.CDLL(None)
before = libc.prctl(3, 0, 0, 0, 0)
forbid_dumps()
print(before, libc.prctl(3, 0, 0, 0, 0))
"""


def test_a_process_is_no_longer_dumpable() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0"]  # PR_GET_DUMPABLE
