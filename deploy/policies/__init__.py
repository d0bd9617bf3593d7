"""Admission policies that draw the borders which roles cannot draw, as `windlass up` and cluster administrators apply them."""
