"""The `windlass` command: thin; every import of weight happens inside a command."""

from __future__ import annotations


def main() -> None:
    """Run the command line (console script)."""
    from windlass.cli.main import run

    run()
