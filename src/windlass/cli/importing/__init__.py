"""Commands that read the manifests of other tools and write them as objects of Windlass."""
