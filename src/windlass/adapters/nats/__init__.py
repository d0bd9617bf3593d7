"""Entities in NATS JetStream key-value buckets: the only importer of `nats`."""
