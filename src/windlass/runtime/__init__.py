"""Façades over the Temporal client. The CLI, the web page and the watcher speak through them."""
