"""Package sources, the digest cache and unpacking behind `ports.Packages`."""
