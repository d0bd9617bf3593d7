"""Admission policies for what roles cannot express, as `windlass up` and cluster administrators apply them."""
