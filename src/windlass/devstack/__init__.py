"""The embedded stack: finds, builds, starts and supervises real servers on loopback."""
