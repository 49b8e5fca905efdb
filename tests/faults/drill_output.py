"""The duration and the output of drills."""

import os

DRILL_SCALE = float(os.environ.get("DRILL_SCALE", "1"))
"""Values below 1 shorten drills."""


def print_line(line: str) -> None:
    """Prints a line, which pytest shows with -s and for a failed drill."""
    print(f"\n{line}", end="")  # noqa: T201
