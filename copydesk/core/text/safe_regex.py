"""Matches regular expressions that others wrote, in linear time and in the dialect of RE2, as forges do."""

MAX_PATTERN_CHARS = 2000
MAX_PATTERN_BYTES = 1024 * 1024
"""The memory of a compiled pattern. RE2 refuses a pattern that needs more."""


def search_re2(pattern: str, text: str) -> bool | None:
    """Returns whether the pattern matches somewhere in the text; None if it is not a valid pattern of RE2.

    Python's own engine takes exponential time for some patterns.
    """
    import re2  # imported here because few projects have such rules

    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        return re2.search(pattern, text, options) is not None
    except (re2.error, UnicodeEncodeError):
        return None
