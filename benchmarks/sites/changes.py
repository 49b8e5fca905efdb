"""Formats the changes of a job as one text, which is compared with the expected one."""

import posixpath
from collections.abc import Iterator, Mapping
from difflib import unified_diff

Files = Mapping[str, str]


def format_changes(before: Files, after: Files) -> str:
    """Returns the differences between two trees by path. A file that moved is compared with its new version."""
    moves = _find_moves(before, after)
    parts = []
    for path in sorted(before.keys() | after.keys()):
        if path in moves.values():
            continue
        new_path = moves.get(path, path)
        old_text, new_text = before.get(path, ""), after.get(new_path, "")
        if old_text != new_text or (path in before) != (new_path in after) or new_path != path:
            old_name = path if path in before else "(new)"
            new_name = new_path if new_path in after else "(deleted)"
            parts.append("".join(_diff(old_text, new_text, old_name, new_name)))
    return "".join(parts)


def _diff(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    yield f"{old_name}\n" if old_name == new_name else f"{old_name} -> {new_name}\n"
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))
    is_whole = new_name == "(deleted)"
    for line in () if is_whole else lines[2:]:
        yield f"  {line}\n" if not line.startswith("@@") else ""


def _find_moves(before: Files, after: Files) -> dict[str, str]:
    """Returns the new paths of files that moved to another folder or name, by their old paths."""
    moves: dict[str, str] = {}
    removed = sorted(before.keys() - after.keys())
    for new in sorted(after.keys() - before.keys()):
        same_name = [old for old in removed if posixpath.basename(old) == posixpath.basename(new) and old not in moves]
        # Translations move in the same way, each below its own folder.
        nearest = max(same_name, key=lambda old: len(posixpath.commonprefix([old, new])), default=None)
        if nearest is not None:
            moves[nearest] = new
    return moves
