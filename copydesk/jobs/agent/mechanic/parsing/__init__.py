"""Parses prompts into instructions: quotations, clauses, commands and scopes."""
