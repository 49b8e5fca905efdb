"""The tables of the first schema, by subject."""
