"""Joins and splits the paths of a repository and the targets of links. The empty string is the top folder."""

import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

MAX_PARENT_FOLDERS = 40
QUERY_OR_ANCHOR_PATTERN = re.compile(r"[?#]")


class PathChange(NamedTuple):
    """A path before and after a move. Both are the same for a file that stays."""

    old: str
    new: str


def split_target(target: str) -> tuple[str, str]:
    """Returns the path, and the query and anchor including `?` and `#`."""
    if "#" not in target and "?" not in target:
        return target, ""
    match = QUERY_OR_ANCHOR_PATTERN.search(target)
    return (target[: match.start()], target[match.start() :]) if match else (target, "")


def join_path(folder: str, path: str) -> str | None:
    """Joins a folder and a path. Returns None if the result is outside the repository."""
    if not ("./" in path or "//" in path or path.endswith((".", "/"))):
        return f"{folder}/{path}" if folder else path
    normalized = posixpath.normpath(f"{folder}/{path}" if folder else path)
    if normalized.startswith(".."):
        return None
    return "" if normalized == "." else normalized


def is_within(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def strip_folder(path: str, folder: str) -> str:
    """Returns the path relative to a folder that contains it."""
    return path[len(folder) + 1 :] if folder else path


def list_parent_folders(page: str) -> list[str]:
    """Returns the folders above a page, innermost first; for a very deep page only the outermost ones."""
    folders = [posixpath.dirname(page)]
    while folders[-1]:
        folders.append(posixpath.dirname(folders[-1]))
    return folders[-MAX_PARENT_FOLDERS:]


def collect_folders(files: Iterable[str]) -> frozenset[str]:
    """Returns all folders that contain a file, directly or in another folder."""
    pending = {path[: path.rfind("/")] for path in files if "/" in path}
    folders: set[str] = {""}
    while pending:
        folders |= pending
        pending = {path[: path.rfind("/")] for path in pending if "/" in path} - folders
    return frozenset(folders)
