"""Commands that show what a package has, what happened to it and what would change; they change nothing."""
