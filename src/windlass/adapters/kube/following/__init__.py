"""Lists and watches that are kept up to date."""
