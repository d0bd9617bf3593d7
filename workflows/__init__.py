"""Durable orchestration: no I/O; every `run` reads as a story."""
