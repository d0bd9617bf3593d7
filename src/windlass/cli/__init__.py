"""The `windlass` command: thin; every import of weight happens inside a command."""
