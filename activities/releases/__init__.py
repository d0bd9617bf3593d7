"""What is known of the releases of packages, beside what Helm keeps of them."""
