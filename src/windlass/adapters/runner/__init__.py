"""The runner: a process of its own that runs hooks. It imports the standard library only."""
