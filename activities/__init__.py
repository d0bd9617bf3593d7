"""I/O steps: classes that take ports, without decisions of their own."""
