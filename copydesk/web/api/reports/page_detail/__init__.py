"""One page of the site: its numbers, and what readers, commits and jobs say about it."""
