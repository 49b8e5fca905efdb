"""The files of visits: their format, searches, merges, and the list of them."""
