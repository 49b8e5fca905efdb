"""Finds external resources that a change adds: links, and content that browsers load without a click."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from copydesk.core.text.quoted_text import remove_quotes_and_code
from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension, is_page
from copydesk.jobs.publish.guard.added_lines import FilesBefore, ProposedFile, list_proposed_files
from copydesk.jobs.publish.guard.embeds.by_file_type import ASCIIDOC_EXTENSIONS, find_embeds
from copydesk.jobs.publish.guard.embeds.urls import (
    CODE_MARK,
    UNPARSED_PLACEHOLDERS,
    Dialect,
    Embed,
    EmbedKind,
    clean_address,
    find_host,
    find_urls,
)
from copydesk.jobs.publish.guard.site_dialects import find_dialects
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Changes

PLAIN_LINE_PATTERN = re.compile(r"[^<>\[\]{}`~!\\&|:+=/]*")
MAX_SEARCH_PASSES = 40
"""Limit on the search for line numbers, as a multiple of the file's length."""


@dataclass(frozen=True)
class ExternalResource:
    """A reference that a change adds. `url` is as written; for an inline script, it is the beginning of its code."""

    path: str
    line: int
    kind: EmbedKind
    url: str

    @property
    def host(self) -> str:
        return find_host(self.url)

    @property
    def is_script_of_page(self) -> bool:
        """Returns whether a page runs it as a script, which no prompt can allow."""
        return self.kind == "script" and extension(self.path) in (*PAGE_EXTENSIONS, *ASCIIDOC_EXTENSIONS)


def find_hosts(texts: Iterable[str]) -> set[str]:
    """Returns the hosts of URLs in these texts. Ignores quoted text and code blocks, which are not requests."""
    return {find_host(url) for text in texts for url in find_urls(remove_quotes_and_code(text))} - {""}


def find_external_resources(tree: Tree, changes: Changes) -> list[ExternalResource]:
    """Returns the new external resources by file and line, each address once per file.

    Leaves out addresses that the changed files had before.
    """
    dialects = lru_cache(1)(lambda: find_dialects(tree, changes))
    return [resource for file in list_proposed_files(tree, changes) for resource in find_in_file(file, dialects)]


def format_resources(resources: Iterable[ExternalResource]) -> list[str]:
    """Returns one line per resource; those that browsers load without a click come first."""
    ordered = sorted(resources, key=lambda one: one.kind == "link")
    return [f"{_to_one_line(resource.url)} ({resource.kind}, {resource.path}:{resource.line})" for resource in ordered]


def _to_one_line(url: str) -> str:
    return "".join(character if character.isprintable() else " " for character in url)


def find_in_file(file: ProposedFile, dialects: Callable[[], Collection[Dialect]]) -> Iterator[ExternalResource]:
    """Yields the new external resources of one file.

    `dialects` returns the site's Markdown dialects; it is slow, so it is called only if an embed depends on one.
    """
    lines = LineFinder(file.body)
    seen = set(_list_known_embeds(file.before))
    text_before = file.before.body
    resources: list[ExternalResource] = []
    embeds = find_embeds(file.path, file.body)
    loaded_urls = {embed.url for embed in embeds if embed.kind != "link" and not embed.dialect}
    for embed in embeds:
        if embed.kind == "link" and embed.url in loaded_urls:
            continue
        if (embed.kind, clean_address(embed.url)) in seen or (embed.kind == "link" and embed.url in text_before):
            continue
        if embed.url in UNPARSED_PLACEHOLDERS and _is_plain_edit(file):
            continue
        if not embed.dialect or embed.dialect in dialects():
            seen.add((embed.kind, clean_address(embed.url)))
            resources.append(ExternalResource(file.path, lines.find_line(embed), embed.kind, embed.url))
    yield from sorted(resources, key=lambda one: one.line)


@lru_cache(4)
def _list_known_embeds(before: FilesBefore) -> frozenset[tuple[EmbedKind, str]]:
    """Returns the embeds that the files had before the change, without addresses in code and comments."""
    embeds = (embed for path, body in before.bodies for embed in find_embeds(path, body))
    return frozenset(
        (one.kind, clean_address(one.url))
        for one in embeds
        if one.kind != "link" and one.url not in UNPARSED_PLACEHOLDERS
    )


def _is_plain_edit(file: ProposedFile) -> bool:
    """Returns whether the changed lines of an unparsable file contain only plain words, which cannot load anything."""
    old = next((body for path, body in file.before.bodies if path == file.path), None)
    if old is None:
        return False
    changed_lines = set(old.split("\n")) ^ set(file.body.split("\n"))
    return all(PLAIN_LINE_PATTERN.fullmatch(line) for line in changed_lines)


class LineFinder:
    """Finds the line numbers of addresses, fastest in the order of the text, with a limit on the work."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.position = 0
        self.budget = MAX_SEARCH_PASSES * (len(body) + 1000)

    def find_line(self, embed: Embed) -> int:
        """Returns the line of the address, else the line of its block; 0 if neither is known."""
        start = self._find_line_start(embed.line)
        for begin in (start, 0) if start else (0,):
            if self.budget < 0:
                return embed.line
            offset = self.body.find(embed.url.partition(CODE_MARK)[0], begin)
            self.budget -= (offset if offset >= 0 else len(self.body)) - begin
            if offset >= 0:
                return self._line_at(offset)
        return embed.line

    def _find_line_start(self, line: int) -> int:
        """Returns the offset of a line. Continues from the last call, because most calls are in order."""
        if line <= 1:
            return 0
        number, position = getattr(self, "_last", (1, 0))
        if line < number:
            number = 1
            position = 0
            self.budget -= len(self.body) // 8
        while number < line and (following := self.body.find("\n", position)) >= 0:
            number += 1
            position = following + 1
        self._last = (number, position)
        return position

    def _line_at(self, offset: int) -> int:
        number, position = getattr(self, "_counted", (1, 0))
        if offset < position:
            number = 1
            position = 0
        number += self.body.count("\n", position, offset)
        self._counted = (number, offset)
        return number


def find_new_embed(
    tree: Tree, resources: Collection[ExternalResource], allowed_hosts: Collection[str] = ()
) -> ExternalResource | None:
    """Returns the first embed from a host that is not in `allowed_hosts` and that no page loads from yet, or None.

    A host that pages only name or link to counts as new: text that asks for a tracking image names its host too. A
    script is new unless a page runs one of the same host, and `allowed_hosts` do not allow it in a page.
    """
    embeds = [
        one for one in resources if one.kind != "link" and (one.is_script_of_page or one.host not in allowed_hosts)
    ]
    new_hosts = {(one.host, one.kind == "script") for one in embeds}
    if any(host for host, _ in new_hosts):
        for path, entry in tree.files():
            if tree.is_readable(entry):
                new_hosts -= _find_loaded_hosts(path, tree.read(entry, path), {host for host, _ in new_hosts} - {""})
    return next((one for one in embeds if (one.host, one.kind == "script") in new_hosts), None)


def _find_loaded_hosts(path: str, data: bytes, hosts: Collection[str]) -> set[tuple[str, bool]]:
    """Returns which of the hosts a file loads from, with True if scripts may come from there.

    In files that are not pages, such as settings, a URL is enough.
    """
    lower = data.lower()
    named_hosts = {host for host in hosts if re.search(rb"//%s(?![\w-]|\.\w)" % re.escape(host.encode()), lower)}
    if not named_hosts:
        return set()
    if not is_page(path):
        is_unread_page = extension(path) in (*PAGE_EXTENSIONS, *ASCIIDOC_EXTENSIONS)
        return set() if is_unread_page else {(host, is_script) for host in named_hosts for is_script in (False, True)}
    body = DecodedText.decode(data).normalized_body if is_text(data) else ""
    loaded = [embed for embed in find_embeds(path, body) if embed.kind != "link"]
    hosts_of_scripts = {find_host(embed.url) for embed in loaded if embed.kind == "script"}
    return {(find_host(embed.url), False) for embed in loaded} | {(host, True) for host in hosts_of_scripts}
