"""What a package says of itself, its versions, and the repositories it comes from."""
