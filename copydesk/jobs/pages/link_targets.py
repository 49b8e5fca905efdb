"""Which file a link leads to, and how to write the link when one of the two has moved."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import INDEXES, PAGES, extension, stem, without_extension

SUFFIX = re.compile(r"[?#]")
ASSETS = ("public", "static")
ADDED = (*PAGES, *(f"/{index}{kind}" for kind in PAGES[:4] for index in INDEXES))
MAX_ROOTS = 40
"""Folders above a page that a link from the top may start from."""
PLAIN = re.compile(r"[A-Za-z0-9/_.~!$&'*+,;=@:-]")


@dataclass(frozen=True)
class Resolved:
    """A link's path is `base` joined with what was written; `cut` is the part of the file's path left unwritten."""

    file: str
    base: str
    cut: str
    tail: str
    as_address: bool = False
    """Relative to the page's own address, as if the page were a folder, instead of to the folder it lies in."""


class Site:
    """The repository's paths, as links see them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(paths)

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(parent for path in self.paths for parent in _ancestors(path))

    def moved(self, old: str, new: str) -> "Site":
        return Site(self.paths - {old} | {new})

    def resolve(self, page: str, target: str) -> Resolved | None:
        """The file that this link on this page leads to."""
        path = unquote(split(target)[0])
        for base in bases(page, path):
            found = self._at(base, path)
            if found:
                as_address = not path.startswith("/") and base != posixpath.dirname(page)
                return replace(found, as_address=as_address)
        return None

    def _at(self, base: str, path: str) -> Resolved | None:
        joined = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
        if joined.startswith(".."):
            return None
        joined = "" if joined == "." else joined
        slash = "/" if path.endswith("/") and path.strip("/") else ""
        if joined in self.paths and not slash:
            return Resolved(joined, base, "", "")
        for cut in ADDED:
            if (file := (joined + cut).lstrip("/")) in self.paths:
                return Resolved(file, base, cut, slash)
        if extension(joined) == ".html":
            for cut in PAGES:
                if (file := without_extension(joined) + cut) in self.paths:
                    return Resolved(file, base, cut, ".html")
        return None


def split(target: str) -> tuple[str, str]:
    """The path, and the query and anchor with their marks."""
    if "#" not in target and "?" not in target:
        return target, ""
    match = SUFFIX.search(target)
    return (target[: match.start()], target[match.start() :]) if match else (target, "")


def bases(page: str, path: str) -> Iterator[str]:
    """The folders that a link may start from, the likeliest first."""
    if path.startswith("/"):
        roots = ["", *reversed(list(_ancestors(page)))][:MAX_ROOTS]
        yield from roots
        yield from (posixpath.join(root, asset) for root in roots for asset in ASSETS)
        return
    yield posixpath.dirname(page)
    if not extension(path) and stem(page) not in INDEXES:
        yield without_extension(page)  # as an address: the page itself is a folder


def rewritten(target: str, page: str, resolved: Resolved, file: str) -> str:
    """The link as it was written, but from `page` to `file`: style, query and anchor stay."""
    written, suffix = split(target)
    named = _named(file, resolved)
    if written.startswith("/"):
        below = _below(named, resolved.base)
        path = "/" + (named if below is None else below)
    else:
        base = without_extension(page) if resolved.as_address else posixpath.dirname(page)
        path = relative(named, base, written)
    return encoded(path + (resolved.tail if path.strip("./") else ""), written) + suffix


def relative(named: str, base: str, written: str) -> str:
    path = posixpath.relpath(named or ".", base or ".")
    if written.startswith("./") and not path.startswith("."):
        return f"./{path}"
    return "./" if path == "." else path


def _named(file: str, resolved: Resolved) -> str:
    """As much of the file's path as the link used to write."""
    if not resolved.cut or extension(file) not in PAGES:
        return file
    if resolved.cut.startswith("/") and stem(file) in INDEXES:
        return posixpath.dirname(file)
    return without_extension(file)


def _below(path: str, base: str) -> str | None:
    if not base:
        return path
    return path[len(base) + 1 :] if path.startswith(base + "/") else None


def _ancestors(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def encoded(path: str, like: str) -> str:
    """Percent-encoded as far as `like` is: characters it writes plainly stay plain."""
    plain_text = not re.search(r"%[89A-Fa-f][0-9A-Fa-f]", like)
    kept = set(like) - {"%"}
    return "".join(c if PLAIN.match(c) or c in kept or (not c.isascii() and plain_text) else percent(c) for c in path)


def percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
