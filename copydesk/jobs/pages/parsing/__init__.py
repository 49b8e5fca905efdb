"""Parses pages: prose and code, front matter, headings, references to files."""
