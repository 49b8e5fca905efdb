"""Resolves links to files, and rewrites a link when its page or its target has moved."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import INDEX_NAMES, PAGE_EXTENSIONS, extension, stem, strip_extension

QUERY_OR_ANCHOR_PATTERN = re.compile(r"[?#]")
ASSET_FOLDERS = ("public", "static")
IMPLIED_ENDINGS = (*PAGE_EXTENSIONS, *(f"/{index}{kind}" for kind in PAGE_EXTENSIONS[:4] for index in INDEX_NAMES))
MAX_ROOTS = 40
"""Limits the folders above a page that an absolute link may start from."""
UNENCODED_CHAR_PATTERN = re.compile(r"[A-Za-z0-9/_.~!$&'*+,;=@:-]")


@dataclass(frozen=True)
class ResolvedLink:
    """The file that a link leads to.

    `base` is the folder that the link starts from, `omitted_ending` the end of the file's path that the link leaves
    out, and `url_ending` the `/` or `.html` that the link has in its place.
    """

    file: str
    base: str
    omitted_ending: str
    url_ending: str
    is_relative_to_address: bool = False
    """True if the link is relative to the page's address, as if the page were a folder, not to the page's folder."""


class RepositoryPaths:
    """The paths of the repository that links can lead to."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(paths)

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(parent for path in self.paths for parent in _list_parent_folders(path))

    def with_move(self, old: str, new: str) -> "RepositoryPaths":
        return RepositoryPaths(self.paths - {old} | {new})

    def resolve(self, page: str, target: str) -> ResolvedLink | None:
        """Returns the file that a link on this page leads to, or None."""
        path = unquote(split_target(target)[0])
        for base in list_base_folders(page, path):
            resolved = self._find_file(base, path)
            if resolved:
                is_relative_to_address = not path.startswith("/") and base != posixpath.dirname(page)
                return replace(resolved, is_relative_to_address=is_relative_to_address)
        return None

    def _find_file(self, base: str, path: str) -> ResolvedLink | None:
        full_path = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
        if full_path.startswith(".."):
            return None
        full_path = "" if full_path == "." else full_path
        slash = "/" if path.endswith("/") and path.strip("/") else ""
        if full_path in self.paths and not slash:
            return ResolvedLink(full_path, base, "", "")
        for ending in IMPLIED_ENDINGS:
            if (file := (full_path + ending).lstrip("/")) in self.paths:
                return ResolvedLink(file, base, ending, slash)
        if extension(full_path) == ".html":
            for ending in PAGE_EXTENSIONS:
                if (file := strip_extension(full_path) + ending) in self.paths:
                    return ResolvedLink(file, base, ending, ".html")
        return None


def split_target(target: str) -> tuple[str, str]:
    """Returns the path, and the query and anchor including `?` and `#`."""
    if "#" not in target and "?" not in target:
        return target, ""
    match = QUERY_OR_ANCHOR_PATTERN.search(target)
    return (target[: match.start()], target[match.start() :]) if match else (target, "")


def list_base_folders(page: str, path: str) -> Iterator[str]:
    """Yields the folders that a link may start from, the most likely first."""
    if path.startswith("/"):
        roots = ["", *reversed(list(_list_parent_folders(page)))][:MAX_ROOTS]
        yield from roots
        yield from (posixpath.join(root, asset) for root in roots for asset in ASSET_FOLDERS)
        return
    yield posixpath.dirname(page)
    if not extension(path) and stem(page) not in INDEX_NAMES:
        yield strip_extension(page)  # relative to the page's address, where the page acts as a folder


def rewrite_target(target: str, page: str, resolved: ResolvedLink, file: str) -> str:
    """Rewrites a link so that it leads from `page` to `file`. Keeps its style, query and anchor."""
    old_path, query_and_anchor = split_target(target)
    short_path = _omit_ending(file, resolved)
    if old_path.startswith("/"):
        path_in_base = _strip_base_folder(short_path, resolved.base)
        new_path = "/" + (short_path if path_in_base is None else path_in_base)
    else:
        base = strip_extension(page) if resolved.is_relative_to_address else posixpath.dirname(page)
        new_path = relative_path(short_path, base, old_path)
    return encode_like(new_path + (resolved.url_ending if new_path.strip("./") else ""), old_path) + query_and_anchor


def relative_path(target_path: str, base: str, old_path: str) -> str:
    path = posixpath.relpath(target_path or ".", base or ".")
    if old_path.startswith("./") and not path.startswith("."):
        return f"./{path}"
    return "./" if path == "." else path


def _omit_ending(file: str, resolved: ResolvedLink) -> str:
    """Returns the file's path without the ending that the link leaves out."""
    if not resolved.omitted_ending or extension(file) not in PAGE_EXTENSIONS:
        return file
    if resolved.omitted_ending.startswith("/") and stem(file) in INDEX_NAMES:
        return posixpath.dirname(file)
    return strip_extension(file)


def _strip_base_folder(path: str, base: str) -> str | None:
    if not base:
        return path
    return path[len(base) + 1 :] if path.startswith(base + "/") else None


def _list_parent_folders(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def encode_like(path: str, like: str) -> str:
    """Percent-encodes a path in the style of `like`: characters that `like` does not encode are not encoded."""
    keeps_unicode = not re.search(r"%[89A-Fa-f][0-9A-Fa-f]", like)
    plain_chars = set(like) - {"%"}
    return "".join(
        c
        if UNENCODED_CHAR_PATTERN.match(c) or c in plain_chars or (not c.isascii() and keeps_unicode)
        else percent_encode(c)
        for c in path
    )


def percent_encode(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
