"""What a change brings in from elsewhere: new links, and what a reader's browser would load by itself."""

import html
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from copydesk.jobs.pages.kinds import is_page
from copydesk.jobs.pages.markup import without_blocks
from copydesk.jobs.publish.additions import Addition, additions
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Changes

Kind = Literal["link", "image", "style", "frame", "script"]

URL = re.compile(r"https?:[/\\]+[^\s\"'<>()\[\]{}|^`]+|(?<=[\"'(=<\s])//[\w-]+\.[^\s\"'<>()\[\]{}|\\^`]+", re.I)
NEAR, LONGEST_TEXT = 200, 4000
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|\w{1,32});", re.I)
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)[^`\n]+\1(?!`)")
TAG = re.compile(r"<([a-z][\w.-]*)(?![\w.:-])(?:\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|[^<>\"'{}])*", re.I)
ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*[\"'{`]*[^\"'=]*$")
TAGS: dict[str, Kind] = {
    "script": "script", "base": "script", "meta": "script", "form": "script", "iframe": "frame",
    "object": "frame", "embed": "frame", "portal": "frame", "link": "style", "a": "link",
}  # fmt: skip
LOADED = ("src", "srcset", "poster", "background", "data", "img", "image", "icon", "xlink:href", "style", "srcdoc")
BEFORE: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\b(?:src|srcset|poster|background|data)\s*=\s*[\"'{`]*\s*$", re.I), "image"),  # of a broken tag
    (re.compile(r"(?:\.\. (?:\|[^|\n]*\| )?(?:image|figure)::\s*|\bimage::?)$"), "image"),
    (re.compile(r"(?:@import\s+[\"']?(?:url\([\"']?)?|\burl\(\s*[\"']?)$"), "style"),
    (re.compile(r"\b(?:from|import)\s*\(?\s*[\"']$"), "script"),
)
SCRIPT = re.compile(r"<script\b.*?(?:</script|\Z)", re.S | re.I)
DEFINITION = re.compile(r"^[ \t>]*\[([^\]\n]+)\]:\s*<?$", re.M)
INLINE = re.compile(
    r"<script\b(?![^<>]*\bsrc\s*=)|<[a-z][^<>]*\s(?P<handler>on[a-z]+)\s*=\s*[\"']|(?:\]\(|=\s*[\"']?)\s*(?P<js>javascript:)",
    re.I,
)
RUN_BY_NAME = (".js", ".mjs", ".cjs", ".css", ".wasm")


@dataclass(frozen=True)
class Outside:
    """`url` as it was written; for a script that stands in the page itself, its first words."""

    path: str
    line: int
    kind: Kind
    url: str

    @property
    def host(self) -> str:
        try:
            return (urlsplit(self.url.replace("\\", "/")).hostname or "").lower()
        except ValueError:
            return ""


def hosts_in(texts: Iterable[str]) -> set[str]:
    """The hosts that these texts name by an address."""
    return {Outside("", 0, "link", found[0]).host for text in texts for found in URL.finditer(text)} - {""}


def outside(tree: Tree, changes: Changes) -> list[Outside]:
    """In the order of files and lines, each address once a file, unless the files named it before."""
    return [found for addition in additions(tree, changes) for found in outside_in(addition)]


def outside_in(addition: Addition) -> Iterator[Outside]:
    page = is_page(addition.path)
    body = _unmasked(addition.path, addition.body) if page else _decoded(addition.body)
    before = _decoded(addition.before.body)
    seen: set[tuple[str, str]] = set()
    starts = [0, *(match.end() for match in re.finditer("\n", body))]
    for position, kind, url in sorted(_found(body, page)):
        if (kind, url) not in seen and url not in before:
            seen.add((kind, url))
            yield Outside(addition.path, bisect_right(starts, position), kind, url)


def strange_embed(tree: Tree, found: Collection[Outside], hosts: Collection[str] = ()) -> Outside | None:
    """The first that readers would load from a host which neither `hosts` nor any file of the repository names."""
    embeds = [one for one in found if one.kind != "link" and one.host not in hosts]
    strange = {one.host for one in embeds}
    if any(strange):
        for _, entry in tree.files():
            data = tree.read(entry).lower()
            strange -= {host for host in strange if host and f"//{host}".encode() in data}
    return next((one for one in embeds if one.host in strange), None)


def _found(body: str, page: bool) -> Iterator[tuple[int, Kind, str]]:
    scripts, tags = list(SCRIPT.finditer(body)), list(TAG.finditer(body))
    for match in URL.finditer(body):
        position, url = match.start(), match.group().rstrip(".,;:!?*_")
        if _around(scripts, position):
            yield position, "script", url
        elif tag := _around(tags, position):
            yield position, _kind_in_tag(tag[1].lower(), body[tag.start() : position]), url
        else:
            yield position, _kind(body, position, url, page), url
    if page or "<script" in body:
        for match in INLINE.finditer(body):
            yield match.start(), "script", " ".join(body[match.start() : match.start() + 80].split())


def _around(spans: list[re.Match[str]], position: int) -> re.Match[str] | None:
    """Of spans in order, the one that the position lies in."""
    index = bisect_right(spans, position, key=lambda span: span.start()) - 1
    return spans[index] if index >= 0 and position < spans[index].end() else None


def _kind_in_tag(tag: str, before: str) -> Kind:
    attribute = ATTRIBUTE.search(before, len(before) - NEAR)
    return TAGS.get(tag) or ("image" if attribute and attribute[1].lower() in LOADED else "link")


def _kind(body: str, position: int, url: str, page: bool) -> Kind:
    before = body[max(0, position - NEAR) : position]
    if (inline := before.rstrip(" \t\n<")).endswith("]("):
        return "image" if _is_image(body, position - len(before) + len(inline) - 2) else "link"
    for pattern, kind in BEFORE:
        if pattern.search(before):
            return kind
    label = DEFINITION.search(before)
    if label and re.search(rf"!\[[^\]\n]*\]?\[?{re.escape(label[1])}\]", body, re.I):
        return "image"
    if not page and url.split("?")[0].split("#")[0].lower().endswith(RUN_BY_NAME):
        return "script"
    return "link"


def _is_image(body: str, bracket: int) -> bool:
    """Whether the bracket that this one closes follows an exclamation mark; pairs of brackets may stand between."""
    depth = 0
    for position in range(bracket, max(0, bracket - LONGEST_TEXT), -1):
        depth += {"]": 1, "[": -1}.get(body[position], 0)
        if depth == 0:
            return body[position - 1] == "!"
    return bracket >= LONGEST_TEXT


def _unmasked(path: str, body: str) -> str:
    """Without code, which is shown and not run, and with entities as what they stand for; lines stay lines."""
    return _decoded(CODE_SPAN.sub(lambda span: " " * len(span.group()), without_blocks(path, body)))


def _decoded(body: str) -> str:
    return ENTITY.sub(lambda entity: html.unescape(entity.group()).replace("\n", " "), body)
