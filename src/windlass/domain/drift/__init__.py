"""Where the objects of a release differ from its manifest, and what is to be done about it."""
