"""Settings, schemas and values of packages."""
