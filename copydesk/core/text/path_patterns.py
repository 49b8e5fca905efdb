"""Patterns of paths: `*` stands for any text within a folder, `**` for any folders, and a folder for all its files."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

MAX_PATTERN_CHARS = 200
MAX_PATTERNS = 50


def validate_pattern(pattern: str) -> str:
    """Returns the pattern. Raises ValueError if it cannot match a path of a repository."""
    text = pattern.strip()
    if not 1 <= len(text) <= MAX_PATTERN_CHARS or not text.isprintable():
        raise ValueError(f"a path pattern must have 1 to {MAX_PATTERN_CHARS} printable characters")
    if text.startswith("/") or "\\" in text or any(part in ("", ".", "..") for part in text.rstrip("/").split("/")):
        raise ValueError(f"'{text}' is not a path pattern; use one such as docs/** or src/*.py, without a leading /")
    return text


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Returns whether the path matches one of the patterns."""
    return any(_matches(path.split("/"), pattern.rstrip("/").split("/")) for pattern in patterns)


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Compares name by name. Keeps the set of positions that the pattern may have reached, so the cost is bounded."""
    positions = _skip_folders({0}, parts)
    for name in names:
        if len(parts) in positions:  # the pattern names a folder of this path
            return True
        positions = _skip_folders(
            {
                position if parts[position] == "**" else position + 1
                for position in positions
                if parts[position] == "**" or fnmatchcase(name, parts[position])
            },
            parts,
        )
    return len(parts) in positions


def _skip_folders(positions: set[int], parts: Sequence[str]) -> set[int]:
    """Adds the positions after `**`, which may stand for no folder at all, except at the end of the pattern."""
    reached = set(positions)
    for position in sorted(positions):
        while position < len(parts) and parts[position] == "**":
            position += 1
            reached.add(position)
    return reached
