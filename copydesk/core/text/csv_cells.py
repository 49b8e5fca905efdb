"""Cells of CSV files: text that a spreadsheet would run as a formula."""

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters at the start of a cell that make a spreadsheet run it as a formula, including the full-width ones."""


def escape_formula(text: str) -> str:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text
