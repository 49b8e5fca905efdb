"""The files in which a repository instructs the agents and people that edit it, in the order in which they are read."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

INSTRUCTION_PATHS = (
    ".copydesk/AGENTS.md",
    "{root}/AGENTS.md",
    ".mintlify/AGENTS.md",
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    ".cursor/rules/*",
    ".github/copilot-instructions.md",
    "GEMINI.md",
)
"""Patterns of paths, those that count most first. `{root}` is the documentation folder."""
MAX_INSTRUCTION_FILES = 10


def find_instruction_files(paths: Iterable[str], root: str = "") -> list[str]:
    """Returns the instruction files among these paths, in the order of INSTRUCTION_PATHS."""
    candidates = sorted(path for path in paths if path.endswith((".md", ".mdc")) or "/" in path)
    found: list[str] = []
    for pattern in INSTRUCTION_PATHS:
        if "{root}" in pattern and not root:
            continue
        path_pattern = pattern.replace("{root}", root)
        if "*" in path_pattern:
            found += [path for path in candidates if fnmatchcase(path, path_pattern) and path not in found]
        elif path_pattern in candidates and path_pattern not in found:
            found.append(path_pattern)
    return found[:MAX_INSTRUCTION_FILES]
