"""The programs of the embedded stack: which they are, where they are found, how they are built."""
