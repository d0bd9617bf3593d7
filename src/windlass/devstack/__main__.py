"""``python -m windlass.devstack``: finds or builds every program of the stack, and starts nothing."""

from __future__ import annotations

import os
import sys
import time

from windlass.devstack.errors import StackError
from windlass.devstack.programs.build import ensure_tools
from windlass.devstack.programs.catalog import TOOLS


def main() -> int:
    """Find or build the programs; return the exit code."""
    began = time.monotonic()

    def report(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {text}\n")
        sys.stdout.flush()

    try:
        found = ensure_tools([tool for tool in TOOLS.values() if not tool.optional], report, os.environ)
    except StackError as error:
        sys.stderr.write(f"windlass: {error.message}\n  {error.hint}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("windlass: interrupted; the same command goes on where it stopped\n")
        return 130
    report("; ".join(f"{name} {tool.version} ({tool.source})" for name, tool in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
