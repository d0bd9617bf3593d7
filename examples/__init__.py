"""Packages and manifests to try Windlass with; `windlass demo` tells its story with them. Files, no code."""
