"""Commands for the embedded stack."""
