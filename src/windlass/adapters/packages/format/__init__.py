"""What a package looks like on disk and in an archive: reading, checking, packing."""
