"""Composition root: ports meet adapters here, and nobody imports this package."""
