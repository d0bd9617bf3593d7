"""The demo: packages live a whole life on the embedded stack."""
