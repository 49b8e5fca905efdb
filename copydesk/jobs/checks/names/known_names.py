"""Searches the files of a repository for names, in any of their usual spellings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from copydesk.jobs.checks.names.claimed_names import NameKind
from copydesk.jobs.pages.page_types import is_page

MAX_SEARCH_WORK = 3 << 30
"""Bytes times names: about five seconds."""
SEPARATORS = b"_-."
LOWERCASE = bytes(range(256)).lower()
WORD_PATTERN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
VARIABLE_SEGMENT_PATTERN = re.compile(r"[{<:].*|\d+|[0-9a-f-]{8,}|v\d+")
WORD_START, WORD_END = rb"(?:(?<![A-Za-z0-9])|(?<=[a-z0-9])(?=[A-Z]))", rb"(?:(?![A-Za-z0-9])|(?=[A-Z]))"


class SearchTooLong(Exception):
    """The search was stopped, because the repository is large and many names are unknown."""


@dataclass(frozen=True)
class Spelling:
    """A spelling that proves a name. The needle is what is left of it without separators and in lower case."""

    needle: bytes
    pattern: re.Pattern[bytes]
    only_in_sources: bool = False

    def occurs_in(self, content: bytes, squeezed: bytes, is_source: bool) -> bool:
        if self.only_in_sources and not is_source:
            return False
        return self.needle in squeezed and self.pattern.search(content) is not None


class WantedName:
    """A name to search for. It is known when each of its parts was found in one of the part's spellings."""

    def __init__(self, kind: NameKind, name: str) -> None:
        self.kind, self.name = kind, name
        self._missing_parts = list(_list_parts(kind, name))
        self._part_count = len(self._missing_parts)

    def search(self, content: bytes, squeezed: bytes, is_source: bool) -> None:
        self._missing_parts = [
            part
            for part in self._missing_parts
            if not any(spelling.occurs_in(content, squeezed, is_source) for spelling in part)
        ]

    @property
    def is_known(self) -> bool:
        return not self._missing_parts

    @property
    def is_partly_known(self) -> bool:
        return len(self._missing_parts) < self._part_count


def find_unknown(wanted: Iterable[WantedName], files: Iterable[tuple[str, bytes]]) -> list[WantedName]:
    """Returns the names that occur in none of the files. Stops reading when all are known.

    Raises SearchTooLong if too many names are left for so many bytes.
    """
    unknown = [name for name in wanted if not name.is_known]
    work = 0
    for path, content in files if unknown else ():
        work += len(content) * len(unknown)
        if work > MAX_SEARCH_WORK:
            raise SearchTooLong
        unknown = search_text(unknown, content, is_source=not is_page(path))
        if not unknown:
            break
    return unknown


def search_text(wanted: Iterable[WantedName], content: bytes, *, is_source: bool) -> list[WantedName]:
    """Searches one text; returns the names that are still unknown."""
    squeezed = content.translate(LOWERCASE, SEPARATORS)
    unknown = []
    for name in wanted:
        name.search(content, squeezed, is_source)
        if not name.is_known:
            unknown.append(name)
    return unknown


def _list_parts(kind: NameKind, name: str) -> Iterable[list[Spelling]]:
    if kind is NameKind.FLAG:
        yield [_build_exact(f"--{name}"), build_flexible(name, only_in_sources=True)]
    elif kind is NameKind.VARIABLE:
        rest = name.partition("_")[2]  # a prefix such as COPYDESK_ may be added by the program
        spellings = [_build_exact(name), build_flexible(name, only_in_sources=True)]
        yield [*spellings, build_flexible(rest, only_in_sources=True)] if "_" in rest else spellings
    elif kind is NameKind.ENDPOINT:
        for segment in name.strip("/").split("/"):
            if not VARIABLE_SEGMENT_PATTERN.fullmatch(segment):
                yield [build_flexible(segment)]
    elif kind is NameKind.SETTING and "." in name:
        for component in name.split("."):
            yield [build_flexible(component)]
    elif kind is NameKind.PACKAGE and "/" in name:
        yield [_build_path(name)]
    else:
        yield [build_flexible(name)]


def _build_exact(text: str) -> Spelling:
    pattern = re.compile(rb"(?<![A-Za-z0-9_-])" + re.escape(text.encode()) + rb"(?![A-Za-z0-9_-])")
    return Spelling(text.encode().translate(LOWERCASE, SEPARATORS), pattern)


def build_flexible(text: str, *, only_in_sources: bool = False) -> Spelling:
    """Builds a spelling in any case and with any separators: `dry_run`, `dry-run`, `dryRun` and `DryRun`."""
    words = _split_words(text)
    pattern = re.compile(WORD_START + rb"(?i:" + rb"[-_.]?".join(words) + rb")" + WORD_END)
    return Spelling(b"".join(words), pattern, only_in_sources)


def _build_path(text: str) -> Spelling:
    """Builds a spelling of a name with slashes, such as `@scope/package`, whose parts are spelled in any way."""
    parts = [_split_words(part) for part in text.split("/")]
    pattern = b"/".join(rb"[-_.]?".join(words) for words in parts)
    needle = b"/".join(b"".join(words) for words in parts)
    return Spelling(needle, re.compile(WORD_START + rb"(?i:" + pattern + rb")" + WORD_END))


def _split_words(text: str) -> list[bytes]:
    return [word.lower().encode() for word in WORD_PATTERN.findall(text)]
