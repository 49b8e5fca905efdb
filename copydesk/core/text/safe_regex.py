"""Matches regular expressions that others wrote, in linear time and in the dialect of RE2, as forges do."""

MAX_PATTERN_CHARS = 2000


def search_re2(pattern: str, text: str) -> bool | None:
    """Returns whether the pattern matches somewhere in the text; None if it is not a valid pattern of RE2.

    DuckDB brings RE2. Python's own engine takes exponential time for some patterns.
    """
    import duckdb  # imported here because it is slow and few projects have such rules

    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    try:
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            row = connection.execute("select regexp_matches(?, ?)", [text, pattern]).fetchone()
    except duckdb.Error:
        return None
    return bool(row[0]) if row else None
