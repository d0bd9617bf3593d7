"""Public face of service sets: models, decisions and errors, all of them pure; see `windlass.domain.servicesets`."""
