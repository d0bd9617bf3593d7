"""Compares the objects of releases with their manifests when something changes."""
