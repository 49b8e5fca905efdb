"""Renders what a model or a pull request tells as harmless HTML: no raw HTML, no images, and links to https or http."""

import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_INLINE_CHARS = 4_000
"""Longer paragraphs are shown as plain text: the time to parse hostile ones grows with the square of their length."""
MAX_NESTING = 20
ALLOWED_TAGS = frozenset(
    (
        *("a", "blockquote", "br", "code", "details", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "summary"),
        *("table", "tbody", "td", "th", "thead", "tr", "ul"),
    )
)
HEADING_CLASSES = frozenset(f"h{level}" for level in range(1, 7))
CODE_SPAN_PATTERN = re.compile(r"`([^`\n]+)`")
FOLD_PATTERN = re.compile(r"<details><summary>([^<>&]*)</summary>\s*|</details>\s*")


def render_markdown(text: str, *, folds: bool = False) -> Markup:
    """Returns the text as HTML, with raw HTML as text and images as their descriptions.

    With `folds`, lines that open or close a folded section do so: descriptions of pull requests have such lines of
    Copydesk alone, because those of a model are neutralized there."""
    import nh3  # imported here because few requests render Markdown

    parser = _get_parser()
    env: dict[str, Any] = {"folds": folds}
    tokens = parser.parse(text, env)
    for token in tokens:
        if token.type == "inline":
            token.children = parse_inline(parser, token, env)
    cleaned = nh3.clean(
        parser.renderer.render(tokens, parser.options, env),
        tags=ALLOWED_TAGS,
        attributes={"a": {"href"}, "*": set()},
        allowed_classes={"p": HEADING_CLASSES},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="nofollow noopener noreferrer",
    )
    return Markup(cleaned.strip())  # noqa: S704  # sanitized above


def mark_code_spans(text: str) -> Markup:
    """Returns a line about a page as HTML, with what is between backticks as code and all else as it is."""
    return Markup(CODE_SPAN_PATTERN.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped


def parse_inline(parser: "MarkdownIt", token: "Token", env: dict[str, Any]) -> "list[Token]":
    from markdown_it.token import Token

    children: list[Token] = []
    if len(token.content) > MAX_INLINE_CHARS:
        return [Token("text", "", 0, content=token.content)]
    parser.inline.parse(token.content, parser, env, children)
    for child in children:
        if child.type == "text_special":  # an entity or an escaped character
            child.type = "text"
    return children


def render_heading_open(_self: Any, tokens: "list[Token]", index: int, _options: Any, _env: Any) -> str:
    """Renders a heading as a paragraph, because it is no heading of the dashboard's page."""
    return f'<p class="{tokens[index].tag}">'


def render_heading_close(_self: Any, _tokens: "list[Token]", _index: int, _options: Any, _env: Any) -> str:
    return "</p>\n"


@cache
def _get_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    options = {"maxNesting": MAX_NESTING, "html": True, "breaks": True}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.core.ruler.disable(["inline", "text_join"])
    for name, render in RENDER_RULES.items():
        parser.add_render_rule(name, render)
    return parser


def _render_html_block(_self: Any, tokens: "list[Token]", index: int, _options: Any, env: dict[str, Any]) -> str:
    content = tokens[index].content
    if env["folds"] and FOLD_PATTERN.fullmatch(content):
        return content
    return f"<p>{'<br>'.join(escape(line) for line in content.strip().splitlines())}</p>\n"


def _render_html_inline(_self: Any, tokens: "list[Token]", index: int, _options: Any, _env: Any) -> str:
    return escape(tokens[index].content)


def _render_image(_self: Any, tokens: "list[Token]", index: int, _options: Any, _env: Any) -> str:
    return f"Image: {escape(tokens[index].content)}"


RENDER_RULES = {
    "html_block": _render_html_block,
    "html_inline": _render_html_inline,
    "image": _render_image,
    "heading_open": render_heading_open,
    "heading_close": render_heading_close,
}
