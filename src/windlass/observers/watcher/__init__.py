"""The watcher: watches packages and repositories and signals their workflows."""
