"""Go modules that pin the upstream programs of the embedded stack."""
