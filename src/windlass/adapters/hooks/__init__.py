"""Executable hooks behind `ports.Hooks`: discovery, one run, and the files exchanged with it."""
