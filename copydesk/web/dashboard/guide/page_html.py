"""Renders a page of the guide: Markdown without raw HTML, headings with anchors, and links to other pages."""

import posixpath
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from markupsafe import Markup

from copydesk import __version__
from copydesk.web.dashboard.guide.chapters import GUIDE_URL, SOURCE_URL, find_folder, list_files, name_in_url

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_LISTED_LEVEL = 3


class Heading(NamedTuple):
    level: int
    anchor: str
    text: str


class GuidePage(NamedTuple):
    title: str
    html: Markup
    headings: list[Heading]
    """The headings of the second and third level, for the page's own table of contents."""


@cache
def render_guide_page(name: str) -> GuidePage:
    """Returns a page of the guide. Raises KeyError if there is none. The files never change while a server runs."""
    file = list_files()[name]
    if file.suffix != ".md":
        raise KeyError(name)
    source = PurePosixPath(file.relative_to(find_folder()).as_posix())
    parser = _get_parser()
    tokens = parser.parse(file.read_text("utf-8"))
    headings = _add_anchors(tokens)
    for token in tokens:
        for child in token.children or ():
            _rewrite_target(child, source)
    html = parser.renderer.render(tokens, parser.options, {})
    html = html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    title = next((heading.text for heading in headings if heading.level == 1), name)
    listed = [heading for heading in headings if 1 < heading.level <= MAX_LISTED_LEVEL]
    return GuidePage(title, Markup(html), listed)  # noqa: S704  # our own text, with raw HTML escaped


@cache
def _get_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def make_anchor(heading: str) -> str:
    """Returns the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _add_anchors(tokens: "list[Token]") -> list[Heading]:
    headings: list[Heading] = []
    seen: Counter[str] = Counter()
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in content.children or ())
            anchor = make_anchor(text)
            seen[anchor] += 1
            if seen[anchor] > 1:
                anchor = f"{anchor}-{seen[anchor] - 1}"
            opening.attrSet("id", anchor)
            headings.append(Heading(int(opening.tag[1]), anchor, text))
    return headings


def _rewrite_target(token: "Token", source: PurePosixPath) -> None:
    attribute = {"link_open": "href", "image": "src"}.get(token.type)
    if attribute is not None:
        target = resolve_target(str(token.attrGet(attribute)), source)
        token.attrSet(attribute, target)
        if target.startswith("https://"):
            token.attrSet("rel", "noreferrer")


def resolve_target(target: str, source: PurePosixPath) -> str:
    """Returns the URL of a link in a page: a page or file of the guide, or else a file of the repository."""
    address = urlsplit(target)
    if address.scheme or address.netloc or not address.path:
        return target
    anchor = f"#{address.fragment}" if address.fragment else ""
    path = posixpath.normpath(str(source.parent / address.path))
    name = name_in_url(PurePosixPath(path))
    if name in list_files():
        return f"{GUIDE_URL}/{name}{anchor}"
    kind = "tree" if address.path.endswith("/") else "blob"
    return f"{SOURCE_URL}/{kind}/v{__version__}/{posixpath.normpath(f'docs/{path}')}{anchor}"
