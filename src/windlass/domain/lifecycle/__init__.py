"""The life of one package: what is known, what is wanted, and the one next step."""
