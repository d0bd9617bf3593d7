"""Leases, members and the table of shards."""
