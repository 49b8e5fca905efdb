"""What a change brings in from elsewhere: new links, and what a reader's browser would load by itself."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from copydesk.jobs.pages.page_types import PAGES, extension, is_page
from copydesk.jobs.publish.guard.added_lines import Addition, Before, additions
from copydesk.jobs.publish.guard.embeds.by_file_type import ASCIIDOC, find_embeds
from copydesk.jobs.publish.guard.embeds.urls import DOUBTS, Dialect, Embed, Kind, clean_address, find_host, find_urls
from copydesk.jobs.publish.guard.site_dialects import find_dialects
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import Text, is_text
from copydesk.jobs.workspace.workspace import Changes

QUOTED = re.compile(r"^ {0,3}>.*$", re.M)
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.M)
PLAIN_LINE = re.compile(r"[^<>\[\]{}`~!\\&|:+=/]*")
SEARCHES = 40
"""How many times the length of a file is searched for the lines of its addresses."""


@dataclass(frozen=True)
class Outside:
    """`url` as it was written; for a script that stands in the page itself, its first words."""

    path: str
    line: int
    kind: Kind
    url: str

    @property
    def host(self) -> str:
        return find_host(self.url)


def hosts_in(texts: Iterable[str]) -> set[str]:
    """The hosts that these texts name by an address, in their own words: what they quote is not asked for."""
    said = (_without_quotes(text) for text in texts)
    return {find_host(url) for text in said for url in find_urls(text)} - {""}


def _without_quotes(text: str) -> str:
    """Returns the text without quotations and fenced blocks; a block that nothing ends runs to the end."""
    kept, mark = [], ""
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if mark:
            mark = "" if fence and fence[1].startswith(mark) else mark
        elif fence:
            mark = fence[1]
        elif not QUOTED.match(line):
            kept.append(line)
    return "\n".join(kept)


def outside(tree: Tree, changes: Changes) -> list[Outside]:
    """In the order of files and lines, each address once a file, unless the files named it before."""
    dialects = lru_cache(1)(lambda: find_dialects(tree, changes))
    return [found for addition in additions(tree, changes) for found in outside_in(addition, dialects)]


def list_outside(found: Iterable[Outside]) -> list[str]:
    """Returns a line for each address, first those that readers load without a click."""
    ordered = sorted(found, key=lambda one: one.kind == "link")
    return [f"{_in_one_line(one.url)} ({one.kind}, {one.path}:{one.line})" for one in ordered]


def _in_one_line(url: str) -> str:
    return "".join(character if character.isprintable() else " " for character in url)


def outside_in(addition: Addition, dialects: Callable[[], Collection[Dialect]]) -> Iterator[Outside]:
    """Yields what one file brings; `dialects` tells how the site reads its pages, and is asked only in doubt."""
    lines = Lines(addition.body)
    seen, known = set(_known_embeds(addition.before)), addition.before.body
    found: list[Outside] = []
    embeds = find_embeds(addition.path, addition.body)
    loaded = {embed.url for embed in embeds if embed.kind != "link" and not embed.dialect}
    for embed in embeds:
        if embed.kind == "link" and embed.url in loaded:
            continue
        if (embed.kind, clean_address(embed.url)) in seen or (embed.kind == "link" and embed.url in known):
            continue
        if embed.url in DOUBTS and _is_plain_edit(addition):
            continue
        if not embed.dialect or embed.dialect in dialects():
            seen.add((embed.kind, clean_address(embed.url)))
            found.append(Outside(addition.path, lines.find(embed), embed.kind, embed.url))
    yield from sorted(found, key=lambda one: one.line)


@lru_cache(4)
def _known_embeds(before: Before) -> frozenset[tuple[Kind, str]]:
    """What the files loaded already. An address that one of them only shows, as code or in a comment, is not loaded."""
    found = (embed for path, body in before.bodies for embed in find_embeds(path, body))
    return frozenset(
        (one.kind, clean_address(one.url)) for one in found if one.kind != "link" and one.url not in DOUBTS
    )


def _is_plain_edit(addition: Addition) -> bool:
    """Whether the lines that an unread file gains and loses hold words alone, so that nothing more is loaded."""
    old = next((body for path, body in addition.before.bodies if path == addition.path), None)
    if old is None:
        return False
    changed = set(old.split("\n")) ^ set(addition.body.split("\n"))
    return all(PLAIN_LINE.fullmatch(line) for line in changed)


class Lines:
    """Finds the lines of addresses in the order of the text, within bounds."""

    def __init__(self, body: str) -> None:
        self.body, self.position, self.budget = body, 0, SEARCHES * (len(body) + 1000)

    def find(self, embed: Embed) -> int:
        """Returns the line where the address stands, or that of its block, or 0."""
        start = self._find_start(embed.line)
        for begin in (start, 0) if start else (0,):
            if self.budget < 0:
                return embed.line
            place = self.body.find(embed.url, begin)
            self.budget -= (place if place >= 0 else len(self.body)) - begin
            if place >= 0:
                return self._count(place)
        return embed.line

    def _find_start(self, line: int) -> int:
        """Returns where a line begins; lines are mostly asked for in order."""
        if line <= 1:
            return 0
        number, position = getattr(self, "_last", (1, 0))
        if line < number:
            number, position = 1, 0
            self.budget -= len(self.body) // 8
        while number < line and (following := self.body.find("\n", position)) >= 0:
            number, position = number + 1, following + 1
        self._last = (number, position)
        return position

    def _count(self, place: int) -> int:
        number, position = getattr(self, "_counted", (1, 0))
        if place < position:
            number, position = 1, 0
        number += self.body.count("\n", position, place)
        self._counted = (number, place)
        return number


def strange_embed(tree: Tree, found: Collection[Outside], hosts: Collection[str] = ()) -> Outside | None:
    """The first that readers would load from a host which is not in `hosts` and which they do not load from so far.

    That a page names or links to a host is not enough: so does one that asks for a tracking image.
    """
    embeds = [one for one in found if one.kind != "link" and one.host not in hosts]
    strange = {one.host for one in embeds}
    if any(strange):
        for path, entry in tree.files():
            if tree.is_readable(entry):
                strange -= _loaded(path, tree.read(entry, path), strange - {""})
    return next((one for one in embeds if one.host in strange), None)


def _loaded(path: str, data: bytes, hosts: Collection[str]) -> set[str]:
    """Those of the hosts that a page loads from; a file that is no page, such as the site's settings, names them."""
    lower = data.lower()
    named = {host for host in hosts if re.search(rb"//%s(?![\w-]|\.\w)" % re.escape(host.encode()), lower)}
    if not named or not is_page(path):
        return set() if extension(path) in (*PAGES, *ASCIIDOC) else named
    body = Text.of(data).shown if is_text(data) else ""
    return named & {find_host(one.url) for one in find_embeds(path, body) if one.kind != "link"}
