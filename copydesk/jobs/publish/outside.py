"""What a change brings in from elsewhere: new links, and what a reader's browser would load by itself."""

import html
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from copydesk.jobs.pages.kinds import PAGES, extension, is_page
from copydesk.jobs.pages.markup import without_blocks
from copydesk.jobs.publish.additions import Addition, Before, additions
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Changes

Kind = Literal["link", "image", "style", "frame", "script"]

# As browsers read them: any number of slashes of either kind, none after another scheme than the page's own.
URL = re.compile(
    r"https?:(?:[/\\]+(?:\[[0-9a-f:.]+\]|[^\s\"'<>()\[\]{}|^`])|(?=[\w-]+\.\w))[^\s\"'<>()\[\]{}|^`]*"
    r"|(?<=[\"'(=<\s,])[/\\]{2,}(?:\[[0-9a-f:.]+\]|[\w-]+[.\u3002\uff0e\uff61])[^\s\"'<>()\[\]{}|^`]*",
    re.I,
)
HEAD = re.compile(r"https?:[/\\]*|[/\\]{2,}", re.I)
NEAR, LONGEST_TEXT = 200, 4000
ENTITY = re.compile(r"&(?:#\d{1,7};?|#x[0-9a-f]{1,6};?|\w{1,32};)", re.I)
TAG = re.compile(r"<([a-z][\w.-]*)(?![\w.:-])(?:\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|[^<>\"'{}])*", re.I)
CODE_OR_TAG = re.compile(rf"(?P<code>(?<!`)(?P<ticks>`+)(?!`)[^`\n]+(?P=ticks)(?!`))|{TAG.pattern}", re.I)
VALUE = re.compile(r"=\s*(?:\"([^\"]*)\"|'([^']*)')")
BREAKS = re.compile(r"[\t\n\r]")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|\{/\*.*?(?:\*/\}|\Z)", re.S)
QUOTED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)|^ {0,3}>.*$", re.M | re.S)
ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*[\"'{`]*[^\"'=]*$")
TAGS: dict[str, Kind] = {
    "script": "script", "base": "script", "meta": "script", "form": "script", "iframe": "frame",
    "object": "frame", "embed": "frame", "portal": "frame", "link": "style", "a": "link",
    "image": "image", "use": "image", "feimage": "image",
}  # fmt: skip
LOADED = (
    "src", "srcset", "poster", "background", "data", "img", "image", "icon", "xlink:href", "style", "srcdoc", "ping",
)  # fmt: skip
PROPERTY = re.compile(
    r"(?:\b(?:src|srcset|poster|image|img|icon|background)[\"']?\s*:\s*[\"'`]*|\burl\(\s*[\"']?)$", re.I
)
BEFORE: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\b(?:src|srcset|poster|background|data)\s*=\s*[\"'{`]*\s*$", re.I), "image"),  # of a broken tag
    (re.compile(r"(?:\.\. (?:\|[^|\n]*\| )?(?:image|figure)::\s*|\bimage::?)$"), "image"),
    (re.compile(r"(?:@import\s+[\"']?(?:url\([\"']?)?|\burl\(\s*[\"']?)$"), "style"),
    (re.compile(r"\b(?:from|import)\s*\(?\s*[\"']$"), "script"),
)
JAVASCRIPT = r"[ \t\r]*".join("javascript:")
REACHES_OUT = (
    r"\b(?:(?:fetch|eval|atob|Function|sendBeacon|XMLHttpRequest|WebSocket|EventSource|importScripts|Image)\s*\("
    r"|(?:document|window|globalThis|navigator)\s*[.\[])"
)
SCRIPT = re.compile(r"<script\b.*?(?:</script|\Z)", re.S | re.I)
DEFINITION = re.compile(r"^[ \t>]*\[([^\]\n]+)\]:\s*<?$", re.M)
INLINE = re.compile(
    r"<script\b(?![^<>]*\bsrc\s*=)"
    r"|<[a-z][^<>]*[\s/\"'](?P<handler>on[a-z]+)\s*=(?!\s*\{)"
    rf"|(?:\]\(\s*(?:<\s*)?|=\s*(?:[\"']\s*)?){JAVASCRIPT}"
    r"|<(?:iframe|frame|object|embed|portal)\b[^<>]*=\s*[\"']?\s*data:"
    r"|\bdangerouslySetInnerHTML\b"
    # What a page of MDX computes: programs that reach out, and addresses put together from pieces.
    rf"|\{{[^{{}}]*{REACHES_OUT}|^(?:export|import)\b[^\n]*(?:\n[ \t][^\n]*){{0,20}}?{REACHES_OUT}"
    r"|\b(?:src|srcset|href|poster|data|style)\s*=\s*\{[^{}]*(?:[\"'`]\s*\+|\+\s*[\"'`]|\$\{|\\)",
    re.I | re.M,
)
NOTHING = Before(b"")
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
        address = HEAD.match(self.url)
        try:
            return (urlsplit("//" + self.url[address.end() :]).hostname or "").lower() if address else ""
        except ValueError:
            return ""


def hosts_in(texts: Iterable[str]) -> set[str]:
    """The hosts that these texts name by an address, in their own words: what they quote is not asked for."""
    said = (QUOTED.sub("", text) for text in texts)
    return {Outside("", 0, "link", found[0]).host for text in said for found in URL.finditer(text)} - {""}


def outside(tree: Tree, changes: Changes) -> list[Outside]:
    """In the order of files and lines, each address once a file, unless the files named it before."""
    return [found for addition in additions(tree, changes) for found in outside_in(addition)]


def outside_in(addition: Addition) -> Iterator[Outside]:
    page = is_page(addition.path)
    shown = _without_old_comments(addition) if page else addition.body
    body = _unmasked(addition.path, shown) if page else _decoded(shown)
    before, seen = _decoded(addition.before.body), set(_embedded(extension(addition.path), addition.before))
    starts = [0, *(match.end() for match in re.finditer("\n", body))]
    for position, kind, url in sorted(_found(body, page)):
        if (kind, url) not in seen and (kind != "link" or url not in before):
            seen.add((kind, url))
            yield Outside(addition.path, bisect_right(starts, position), kind, url)


def _without_old_comments(addition: Addition) -> str:
    """A comment that stands as it stood before loads nothing, as before; one that a sign before it breaks up may."""

    def blanked(found: re.Match[str]) -> str:
        is_old = found[0] in addition.before.body and found.string[found.start() - 1 : found.start()] != "\\"
        return re.sub(r"[^\n]", " ", found[0]) if is_old else found[0]

    return COMMENT.sub(blanked, addition.body)


@lru_cache(4)
def _embedded(kind: str, before: Before) -> frozenset[tuple[Kind, str]]:
    """What the files loaded already. An address that one of them only shows, as code or in a comment, is not loaded."""
    path = f"page{kind}"
    bodies = [COMMENT.sub("", Addition(path, part, NOTHING).body) for part in before.data.split(b"\x00")]
    shown = [_unmasked(path, body) if is_page(path) else _decoded(body) for body in bodies]
    found = (one for body in shown for one in _found(body, is_page(path)))
    return frozenset((what, url) for _, what, url in found if what != "link")


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
        return set() if extension(path) in PAGES else named
    text = COMMENT.sub("", Addition(path, data, NOTHING).body)
    shown = outside_in(Addition(path, text.encode(), NOTHING))
    return named & {one.host for one in shown if one.kind != "link"}


def _found(body: str, page: bool) -> Iterator[tuple[int, Kind, str]]:
    scripts, tags = list(SCRIPT.finditer(body)), list(TAG.finditer(body))
    for match in URL.finditer(body):
        position, url = match.start(), match.group().rstrip(".,;:!?*_")
        if not page and url.startswith("\\"):
            continue  # an escape in a string
        if _around(scripts, position):
            yield position, "script", url
        elif tag := _around(tags, position):
            yield position, _kind_in_tag(tag[1].lower(), body[tag.start() : position]), url
        else:
            yield position, _kind(body, position, url, page), url
    for tag in tags:
        yield from _broken_up(tag)
    if page or "<script" in body:
        for match in INLINE.finditer(body):
            yield match.start(), "script", " ".join(body[match.start() : match.start() + 80].split())


def _broken_up(tag: re.Match[str]) -> Iterator[tuple[int, Kind, str]]:
    """Addresses with breaks in them, which browsers leave out."""
    for value in VALUE.finditer(tag[0]):
        text = value[1] or value[2] or ""
        if BREAKS.search(text) and (url := URL.search(f" {BREAKS.sub('', text)}")):
            before = tag[0][: value.start()] + "="
            yield tag.start() + value.start(), _kind_in_tag(tag[1].lower(), before), url.group()


def _around(spans: list[re.Match[str]], position: int) -> re.Match[str] | None:
    """Of spans in order, the one that the position lies in."""
    index = bisect_right(spans, position, key=lambda span: span.start()) - 1
    return spans[index] if index >= 0 and position < spans[index].end() else None


def _kind_in_tag(tag: str, before: str) -> Kind:
    kind = TAGS.get(tag, "link")
    attribute = ATTRIBUTE.search(before, len(before) - NEAR)
    loads = (attribute and attribute[1].lower() in LOADED) or PROPERTY.search(before, len(before) - NEAR)
    return "image" if kind == "link" and loads else kind


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
    return _decoded(CODE_OR_TAG.sub(lambda m: " " * len(m[0]) if m["code"] else m[0], without_blocks(path, body)))


def _decoded(body: str) -> str:
    return ENTITY.sub(lambda entity: html.unescape(entity.group()).replace("\n", "\t"), body)
