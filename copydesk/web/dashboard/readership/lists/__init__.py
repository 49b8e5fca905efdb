"""The analytics pages that are lists: missing pages, feedback, searches and questions."""
