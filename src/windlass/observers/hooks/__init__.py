"""Watches objects for hooks: informers, mailboxes, and the notifications to lifecycles."""
