"""jq filters, run in warm child processes that may open no file and are killed when a filter does not end."""
