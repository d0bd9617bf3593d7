"""The `windlass` command: thin; every import of weight happens inside a command."""

from __future__ import annotations


def main() -> None:
    """Run the command line (console script)."""
    from windlass.cli.main import main

    main()


def complete() -> None:
    """Answer kubectl, which completes `kubectl windlass` by this (console script)."""
    import sys

    from windlass.cli.main import COMPLETE, main

    main([COMPLETE, *sys.argv[1:]])
