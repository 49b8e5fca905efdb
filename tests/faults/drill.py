"""How long the drills last, and how they tell what they counted."""

import os

SCALE = float(os.environ.get("DRILL_SCALE", "1"))
"""Below 1, a drill is tried in less time."""


def tell(line: str) -> None:
    """Seen with pytest's -s, and when a drill fails."""
    print(f"\n{line}", end="")  # noqa: T201
