"""Renders a documentation page as harmless HTML: no scripts, styles, forms, frames, links or loaded images.

Every block passes an allow-list of elements and attributes, whatever the parser made of it."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from copydesk.jobs.pages.page_types import extension
from copydesk.jobs.pages.parsing import front_matter
from copydesk.web.responses.markdown import MAX_NESTING, parse_inline, render_heading_close, render_heading_open

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MARKDOWN_EXTENSIONS = (".md", ".mdx", ".markdown")
PLAIN_EXTENSIONS = (".rst", ".adoc", ".txt")
MAX_PAGE_CHARS = 60_000
MAX_HTML_CHARS = 10_000
MAX_NESTED_TAGS = 200
MAX_LABEL_CHARS = 200
ALLOWED_TAGS = frozenset(
    (
        *("b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "hr", "i", "kbd", "li", "ol", "p"),
        *("pre", "s", "small", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul"),
    )
)
ALLOWED_CLASSES = frozenset(("link", "image", "component", *(f"h{level}" for level in range(1, 7))))
TAGS_DROPPED_WITH_TEXT = frozenset(
    (
        *("embed", "iframe", "math", "noembed", "noframes", "noscript", "object", "plaintext", "script", "select"),
        *("style", "svg", "template", "textarea", "title", "xmp"),
    )
)
ATTRIBUTES_PATTERN = r"(?P<attributes>(?:[^<>\"'{}]|\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\})*?)"
COMPONENT_PATTERN = re.compile(rf"<(?P<close>/?)(?P<name>[A-Z][\w.]*){ATTRIBUTES_PATTERN}/?>")
COMPONENT_LINES_PATTERN = re.compile(rf"^[ \t]*{COMPONENT_PATTERN.pattern}[ \t]*$", re.M)
FENCED_PATTERN = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,}).*(?:\n.*)*?\n[ \t]*(?P=mark)[ \t]*$", re.M)
IMAGE_PATTERN = re.compile(rf"<img\b{ATTRIBUTES_PATTERN}/?>", re.I)
LABEL_PATTERN = re.compile(r"\b(?:alt|title|name|label|header|icon|href)=(?:\"([^\"]*)\"|'([^']*)')")
MODULE_LINE_PATTERN = re.compile(r"^(?:import|export)[ {*]")


@dataclass(frozen=True)
class RenderedBlock:
    html: Markup
    is_changed: bool = False


class RenderingTooSlow(Exception):
    """The deadline passed while a page was rendered."""


def can_render(path: str) -> bool:
    return extension(path) in (*MARKDOWN_EXTENSIONS, *PLAIN_EXTENSIONS)


def render_page_blocks(path: str, text: str, deadline: float) -> list[RenderedBlock]:
    """Returns the top-level blocks of a page. Raises RenderingTooSlow after the deadline, a time.monotonic() value."""
    text = text.replace("\r\n", "\n")
    if extension(path) not in MARKDOWN_EXTENSIONS:
        return [_render_plain(part) for part in re.split(r"\n[ \t]*\n", text) if part.strip()]
    body_start = front_matter.find_body_start(text)
    blocks = [_render_plain(text[:body_start].strip())] if text[:body_start].strip() else []
    body = text[body_start:]
    is_mdx = extension(path) == ".mdx"
    body = _label_component_lines(_fence_module_lines(body)) if is_mdx else body
    return [*blocks, *(RenderedBlock(html) for html in _render_markdown(body, is_mdx, deadline) if html)]


def _render_plain(text: str) -> RenderedBlock:
    return RenderedBlock(Markup("<pre>{}</pre>").format(text))


def _fence_module_lines(body: str) -> str:
    """Shows the imports and exports of an MDX page as code, as far as the next empty line."""
    paragraphs = re.split(r"(\n[ \t]*\n)", body)
    return "".join(
        f"```\n{part.strip()}\n```" if MODULE_LINE_PATTERN.match(part.lstrip("\n")) and "```" not in part else part
        for part in paragraphs
    )


def _label_component_lines(body: str) -> str:
    """Replaces the tags of components that have their own lines with labels, so that the text between is Markdown."""
    parts = []
    end = 0
    for fence in FENCED_PATTERN.finditer(body):
        parts += [COMPONENT_LINES_PATTERN.sub(_label_lines, body[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(parts) + COMPONENT_LINES_PATTERN.sub(_label_lines, body[end:])


def _label_lines(match: re.Match[str]) -> str:
    return f"\n{_label_component(match)}\n"


def _render_markdown(body: str, is_mdx: bool, deadline: float) -> Iterator[Markup]:
    """Yields the harmless HTML of each top-level block."""
    parser = _get_parser(is_mdx)
    env: dict[str, Any] = {}
    tokens = parser.parse(body, env)
    start = 0
    for index, token in enumerate(tokens):
        if time.monotonic() > deadline:
            raise RenderingTooSlow
        if token.type == "inline":
            token.children = parse_inline(parser, token, env)
        if token.level == 0 and token.nesting <= 0:
            block = tokens[start : index + 1]
            start = index + 1
            yield _sanitize(parser.renderer.render(block, parser.options, env))


@cache
def _get_parser(is_mdx: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "html": True}).enable(["table", "strikethrough"])
    parser.core.ruler.disable(["inline", "text_join"])
    if is_mdx:
        parser.disable("code")  # MDX has no indented code
    for name, render in RENDER_RULES.items():
        parser.add_render_rule(name, render)
    return parser


def _render_html_token(_self: Any, tokens: "list[Token]", index: int, _options: Any, _env: Any) -> str:
    """Renders raw HTML, with components and images as labels. Shows it as text if it is very long or nested."""
    content = tokens[index].content
    if len(content) > MAX_HTML_CHARS or content.count("<") > MAX_NESTED_TAGS:
        return f"<pre>{escape(content)}</pre>"
    return COMPONENT_PATTERN.sub(_label_component, IMAGE_PATTERN.sub(_label_image, content))


def _label_component(match: re.Match[str]) -> str:
    if match["close"]:
        return ""
    label = _find_label(match["attributes"])
    return f'<span class="component">{escape(match["name"])}{f": {escape(label)}" if label else ""}</span>'


def _label_image(match: re.Match[str]) -> str:
    return f'<span class="image">Image: {escape(_find_label(match["attributes"]))}</span>'


def _find_label(attributes: str) -> str:
    match = LABEL_PATTERN.search(attributes)
    return (match[1] or match[2] or "")[:MAX_LABEL_CHARS] if match else ""


def _render_image(_self: Any, tokens: "list[Token]", index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    return f'<span class="image">Image: {escape(token.content or str(token.attrs.get("src", "")))}</span>'


def _render_link_open(_self: Any, _tokens: "list[Token]", _index: int, _options: Any, _env: Any) -> str:
    return '<span class="link">'


def _render_link_close(_self: Any, _tokens: "list[Token]", _index: int, _options: Any, _env: Any) -> str:
    return "</span>"


RENDER_RULES = {
    "html_block": _render_html_token,
    "html_inline": _render_html_token,
    "image": _render_image,
    "link_open": _render_link_open,
    "link_close": _render_link_close,
    "heading_open": render_heading_open,
    "heading_close": render_heading_close,
}


def _sanitize(html: str) -> Markup:
    """Returns the HTML with allowed elements and classes alone, each element closed.

    Very deep nesting is shown as text, because the time to parse it grows with the square of its depth."""
    import nh3  # imported here because few requests render a page

    if _nests_deeply(html):
        return Markup("<pre>{}</pre>").format(html)
    cleaned = nh3.clean(
        html,
        tags=ALLOWED_TAGS,
        attributes={"*": set()},  # otherwise nh3 keeps `lang` and `title`
        allowed_classes={"span": ALLOWED_CLASSES, "p": ALLOWED_CLASSES},
        clean_content_tags=TAGS_DROPPED_WITH_TEXT,
        link_rel=None,
    )
    return Markup(cleaned.strip())  # noqa: S704  # sanitized above


def _nests_deeply(html: str) -> bool:
    depth = deepest = 0
    for match in re.finditer(r"<(/?)[a-zA-Z]", html):
        depth = max(depth - 1, 0) if match[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest > 2 * MAX_NESTED_TAGS
