"""Wire models: what crosses a process border. Additive only; unknown fields are ignored."""
