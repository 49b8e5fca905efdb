"""HTTP: a handler parses, makes one call, renders."""
