"""Reads the statements of a page about the code: the names that it documents, and the files that it names or links to.

A name is compared by its key, which is the same for all spellings: `--dry-run`, `dry_run` and `DryRun`. A name of one
word is too common for that, so its key is its exact form: `--port`, `server.port`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from copydesk.jobs.checks.names.claimed_names import (
    BLOCK_KINDS,
    PLACEHOLDER_PATTERN,
    NameKind,
    find_names,
    list_code_lines,
)

MAX_NAMES_PER_PAGE = 300
MAX_FILES_PER_PAGE = 50
FUNCTION_PATTERN = re.compile(r"(?<![\w$@#%/:\\-])(?:\w+(?:\.|::))*(\w{3,100})\(")
TYPE_PATTERN = re.compile(r"(?<![\w$@#%./:\\-])([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+)(?![\w@/\\-])")
FILE_PATTERN = re.compile(r"(?<![\w/.:@-])((?:[\w.-]+/)+[\w.-]+\.\w{1,10})(?![\w/-])")
BLOB_LINK_PATTERN = re.compile(
    r"(https?://[\w.:-]+/[\w./~-]+?)/(?:-/)?(?:blob|tree|src/(?:branch|commit|tag))/[\w.-]+/([^\s?#)\"'<>\]]+)"
)
WORD_TOKEN_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
KEBAB_TOKEN_PATTERN = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
FLAG_TOKEN_PATTERN = re.compile(r"(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
DOTTED_TOKEN_PATTERN = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)+")
PATH_TOKEN_PATTERN = re.compile(r"/[A-Za-z0-9_{}<>:./-]{2,200}")
PATH_VARIABLE_PATTERN = re.compile(r"\{[^{}/]*\}|<[^<>/]*>|:[A-Za-z_]\w*")
COMPOUND_PATTERN = re.compile(r"[a-z0-9]_[a-z0-9]|[a-z][A-Z]|[A-Z]_[A-Z0-9]|[a-z0-9]-[a-z0-9]")

BRAND_PATTERN = re.compile(r"[a-z][A-Z]")
"""Words such as iPhone, which examples are full of."""


class PageClaims(NamedTuple):
    names: Mapping[str, str]
    """The keys of the names that the page documents, with the name as the page spells it."""
    files: frozenset[str]
    """Paths of files in some repository that the page names in code."""
    links: frozenset[tuple[str, str]]
    """Links to files: the address of the repository, and the path."""


def collect_claims(path: str, body: str) -> PageClaims:
    names: dict[str, str] = {}
    files: set[str] = set()
    for line in list_code_lines(path, body):
        if len(names) < MAX_NAMES_PER_PAGE:
            names.update(
                {key: name for name in _find_line_names(line.text, line.is_in_block) for key in _list_keys(name)}
            )
        if len(files) < MAX_FILES_PER_PAGE:
            files.update(FILE_PATTERN.findall(line.text))
    links = {(match[1], match[2]) for match in BLOB_LINK_PATTERN.finditer(body)}
    return PageClaims(names, frozenset(files), frozenset(sorted(links)[:MAX_FILES_PER_PAGE]))


def _find_line_names(code: str, is_in_block: bool) -> Iterator[str]:
    """Yields the names in a line of code. In blocks, only those count that an example cannot make up."""
    kinds = [kind for kind in (BLOCK_KINDS if is_in_block else NameKind) if kind is not NameKind.PACKAGE]
    for kind in kinds:
        for name in find_names(kind, code):
            yield f"--{name}" if kind is NameKind.FLAG else name
    if not is_in_block:
        for pattern in (FUNCTION_PATTERN, TYPE_PATTERN):
            yield from (name for name in pattern.findall(code) if not PLACEHOLDER_PATTERN.search(name))


def _list_keys(name: str) -> Iterator[str]:
    """Yields the keys under which a name of a page is found in code."""
    if name.startswith("/"):
        if key := normalize_endpoint(name):
            yield key
        return
    if name.startswith("--"):
        yield name
        name = name[2:]
    if "." in name:
        yield name
        name = name.rpartition(".")[2]
    if COMPOUND_PATTERN.search(name) and not BRAND_PATTERN.match(name):
        yield squeeze(name)


def normalize_endpoint(path: str) -> str | None:
    """Returns the path of an endpoint with all variables alike; None if it has too few fixed names."""
    segments = [PATH_VARIABLE_PATTERN.sub("*", segment) for segment in path.strip("/").split("/")]
    fixed = [segment for segment in segments if "*" not in segment]
    return "/" + "/".join(segments) if len(fixed) >= 2 or (fixed and len(segments) >= 2) else None


def squeeze(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def list_code_keys(text: str) -> Iterator[str]:
    """Yields the keys of everything in a text of code that may be a name."""
    yield from (squeeze(token) for token in WORD_TOKEN_PATTERN.findall(text))
    yield from (squeeze(token) for token in KEBAB_TOKEN_PATTERN.findall(text))
    yield from FLAG_TOKEN_PATTERN.findall(text)
    yield from DOTTED_TOKEN_PATTERN.findall(text)
    yield from (key for token in PATH_TOKEN_PATTERN.findall(text) if (key := normalize_endpoint(token)))


def contains_name(text: str, name: str) -> bool:
    """Returns whether a text has the name, not as a part of a longer one, nor as a call of a method."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[max(start - 1, 0) : start], text[end : end + 1]
        if not _continues_name(before) and not _continues_name(after) and (before, after) != (".", "("):
            return True
        start = text.find(name, end)
    return False


def _continues_name(char: str) -> bool:
    return char.isalnum() or char == "_"
