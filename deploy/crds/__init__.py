"""Windlass's CustomResourceDefinitions, one file each; shipped so that any installation can apply them."""
