"""Rules for paths that may be written: inside the repository, outside .git, and the same on every file system."""

import posixpath
import re
import unicodedata
from collections.abc import Iterator

MAX_PATH_BYTES, MAX_NAME_BYTES = 1024, 255
# Code points that HFS+ ignores when it compares names: ".g\u200cit" is ".git" there.
IGNORED_CHARACTERS_PATTERN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
GIT_SHORT_NAME_PATTERN = re.compile(r"git~\d+")


class PathRefused(Exception):
    """The path is refused; the message says why."""


def validate_path(path: str) -> str:
    """Returns the path if it is safe to write; raises PathRefused otherwise."""
    if not path:
        raise PathRefused("The path is empty.")
    if any(ord(c) < 32 or ord(c) == 127 for c in path):
        raise PathRefused("The path contains a control character.")
    if any("\ud800" <= c <= "\udfff" for c in path):
        raise PathRefused("The path is not valid Unicode.")
    if "\\" in path or path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise PathRefused("Paths must be relative to the repository's root and use '/'.")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise PathRefused(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    if unicodedata.normalize("NFC", path) != path:
        raise PathRefused("The path is not in Unicode NFC form. Use composed characters.")
    for name in path.split("/"):
        _validate_name(name)
    return path


def parent_folders(path: str) -> Iterator[str]:
    """Yields the folders that contain the path, innermost first."""
    while path := posixpath.dirname(path):
        yield path


def _validate_name(name: str) -> None:
    if name in ("", ".", ".."):
        raise PathRefused("The path has an empty, '.' or '..' part. Remove that part.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise PathRefused(f"A part of the path is longer than {MAX_NAME_BYTES} bytes.")
    if _is_dot_git(name):
        raise PathRefused("The path is in the .git folder, which cannot be changed.")


def _is_dot_git(name: str) -> bool:
    """Returns whether some file system reads the name as `.git`: case, trailing dots and spaces, streams, 8.3 names."""
    normalized = IGNORED_CHARACTERS_PATTERN.sub("", name).casefold().split(":")[0].rstrip(" .")
    return normalized == ".git" or GIT_SHORT_NAME_PATTERN.fullmatch(normalized) is not None
