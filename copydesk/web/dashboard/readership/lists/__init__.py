"""The analytics pages that are lists: sources, sections, missing pages, feedback, searches and questions."""
