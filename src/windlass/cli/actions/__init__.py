"""Manual actions on lifecycles."""
