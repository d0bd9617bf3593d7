"""Commands that create, list, watch and remove packages, and those for package authors."""
