"""Decisions of the hook protocol: configuration, bindings, events, mailboxes, object patches, metrics."""
