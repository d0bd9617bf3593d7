"""Reading and comparing plain text and JSON data: documents, patterns, numbers, durations."""
