"""Child processes: in groups of their own, tied to the life of this process, killed as a whole, always awaited."""
