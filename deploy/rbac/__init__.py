"""Roles that an installation needs, as `windlass up` and cluster administrators apply them."""
