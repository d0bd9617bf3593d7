"""Steps that ask, run and follow the hooks of packages."""
