"""Finds content that a Markdown page loads or runs, with the tokens of a CommonMark parser.

Where the dialects of generators disagree on what is code, the page is read in both ways.
"""

import html
import re
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from copydesk.jobs.publish.guard.embeds.html import PLAIN_TEMPLATE_PATTERN, find_in_attributes, find_in_html
from copydesk.jobs.publish.guard.embeds.mdx import MdxReader
from copydesk.jobs.publish.guard.embeds.urls import Dialect, Embed, find_host, find_urls, runs_code, shorten

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_NESTING = 40
MAX_BRACKETS = 20
"""How deep brackets may be nested. The parser is slow on deeper ones and does not parse them."""
MAX_DEPTH = 3
FENCE_PATTERN = re.compile(r"`{3,}|~{3,}")
TAG_IN_TEXT_PATTERN = re.compile(r"<[A-Za-z]")
DEFINITION_PATTERN = re.compile(r"^[ \t>]*\[[^\]\n]+\]:[ \t]*\n?[ \t]*<?([^\s>]+)", re.M)
SIMPLE_INFO_PATTERN = re.compile(r"[\w#.+-]*")
CODE_DIRECTIVES = {"code", "code-block", "sourcecode", "math", "literalinclude", "parsed-literal", "prompt", "mermaid"}
DIRECTIVE_PATTERN = re.compile(r"\{([\w:+=-]*)\}[ \t]*([^\n]*)")
COLON_DIRECTIVE_PATTERN = re.compile(r"^[ \t>]*:{2,}[^\n]*", re.M)
BRACES_PATTERN = re.compile(r"\{:?([^{}\n]*)\}")
SHORTCODE_PATTERN = re.compile(r"\{\{[<%]([^{}\n]*)[%>]\}\}|\{%([^{}\n]*)%\}")
TEMPLATE_PATTERN = re.compile(r"\{\{(?![<%])[^{}\n]*\}\}")
SNIPPET_PATTERN = re.compile(r"(?<!-)-+8<-+[^\n]*")


def find_in_markdown(text: str, *, is_mdx: bool = False, depth: int = 0) -> Iterator[Embed]:
    """Yields the embeds and links of the page with their lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_mdx and depth == 0:
        yield from _find_in_mdx(text)
        return
    yield from MarkdownReader(text, is_mdx, depth).read()
    if depth == 0:  # some generators parse every page as MDX
        yield from (
            Embed(embed.kind, embed.url, embed.line, "mdx") for embed in MdxReader(text).read() if embed.kind != "link"
        )


def _find_in_mdx(text: str) -> Iterator[Embed]:
    """Reads an MDX page. If it is unclear which lines are fenced code, reads it again as if none were."""
    mdx = MdxReader(text)
    yield from mdx.read()
    lines = text.split("\n")
    for first, last in mdx.fences:
        lines[first:last] = [""] * (last - first)
    page = MarkdownReader("\n".join(lines), True, 0)
    yield from page.read()
    if not mdx.has_closed_fences or page.fences:
        without_fences = FENCE_PATTERN.sub(lambda mark: " " * len(mark.group()), text)
        yield from MdxReader(without_fences).read()
        yield from MarkdownReader(without_fences, True, MAX_DEPTH).read()


class MarkdownReader:
    """Reads a page once. `depth` counts how many levels of code were read as separate pages."""

    def __init__(self, text: str, is_mdx: bool, depth: int) -> None:
        self.text = text
        self.is_mdx = is_mdx
        self.depth = depth
        self.lines = text.split("\n")
        self.fences: list[tuple[int, int]] = []
        self.html_pieces: list[str] = []
        """The rendered page without code, to find tags that extend over several blocks."""
        self.open_tags = 0
        self.has_open_image = False

    def read(self) -> Iterator[Embed]:
        references: dict[str, Any] = {}
        flat = yield from _flatten_brackets(self.text)
        tokens = _build_parser(self.is_mdx).parse(flat, references)
        for token in tokens:
            line = token.map[0] + 1 if token.map else 0
            for embed in self._read_token(token):
                yield Embed(embed.kind, embed.url, embed.line or line, embed.dialect)
        if self.has_open_image:  # other dialects accept more syntax for images and their definitions
            for match in DEFINITION_PATTERN.finditer(self.text):
                if find_host(match[1]):
                    yield Embed("image", match[1], self.text.count("\n", 0, match.start()) + 1)
        if not self.is_mdx:
            yield from (one for one in find_in_html("\n".join(self.html_pieces)) if one.kind != "link")

    def _read_token(self, token: "Token") -> Iterator[Embed]:
        if token.level >= MAX_NESTING - 2:
            yield Embed("script", shorten(f"nested too deeply: {token.content}"))
        if token.type == "fence":
            yield from self._read_fence(token)
        elif token.type == "code_block":  # in lists, admonitions and definitions, other dialects read this as text
            yield from self._read_code(token.content)
        elif token.type == "html_block":
            self.html_pieces.append(token.content)
            self.open_tags += len(re.findall(r"<[a-z]", token.content, re.I)) - token.content.count("</")
            yield from find_in_html(token.content)
            yield from self._read_text_between_tags(token.content)
        elif token.type == "inline":
            yield from self._read_inline(token)

    def _read_fence(self, token: "Token") -> Iterator[Embed]:
        start, end = token.map or [0, 0]
        info = token.info.strip()
        last = self.lines[end - 1].strip(" \t>") if 0 < end <= len(self.lines) else ""
        is_closed = end - start > 1 and set(last) == {token.markup[0]} and len(last) >= len(token.markup)
        self.fences.append((start, end))
        if directive := DIRECTIVE_PATTERN.match(info):
            yield from self._read_directive(directive[1], directive[2], token.content)
        elif re.search(r"\blive\b", info):
            yield Embed("script", shorten(token.content), dialect="mdx")
        elif info.startswith("mermaid"):
            diagram = "\n".join(line for line in token.content.split("\n") if not line.lstrip().startswith("click"))
            yield from (Embed("image", url) for url in find_urls(diagram))
        elif not is_closed:
            yield from self._read_code(token.content)
        elif not self.is_mdx and self._is_ambiguous_fence(token, last, info):
            yield from self._read_code(token.content, "strict fences")

    def _is_ambiguous_fence(self, token: "Token", closing: str, info: str) -> bool:
        """Returns whether Python-Markdown or kramdown may read the fence as text.

        They may do so in lists, in HTML, and if the fences differ or the info string is unusual.
        """
        opening = self.lines[token.map[0]] if token.map else ""
        is_plain = opening.startswith(token.markup) and closing == token.markup and SIMPLE_INFO_PATTERN.fullmatch(info)
        return token.level > 0 or self.open_tags > 0 or not is_plain

    def _read_directive(self, name: str, argument: str, content: str) -> Iterator[Embed]:
        """Reads a MyST directive, which has the syntax of a fence."""
        if name in CODE_DIRECTIVES:
            return
        if name.startswith("code-cell"):
            yield Embed("script", shorten(content))
        elif name == "eval-rst":
            from copydesk.jobs.publish.guard.embeds.rst import find_in_rst

            yield from (Embed(embed.kind, embed.url) for embed in find_in_rst(content))
        yield from (Embed("image", url) for url in find_urls(argument))
        options = re.findall(r"^:[\w-]+:[ \t]*(.*)$", content, re.M)
        yield from (Embed("image", url) for option in options for url in find_urls(option))
        yield from self._read_code(content)

    def _read_code(self, content: str, dialect: Dialect = "") -> Iterator[Embed]:
        """Reads code as text, because another dialect may do so. Leaves out links."""
        if self.depth < MAX_DEPTH:
            embeds = find_in_markdown(content, is_mdx=self.is_mdx, depth=self.depth + 1)
        else:
            embeds = find_in_html(content)
        yield from (Embed(embed.kind, embed.url, 0, dialect) for embed in embeds if embed.kind != "link")

    def _read_text_between_tags(self, content: str) -> Iterator[Embed]:
        """Reads the text of an HTML block as Markdown, as some dialects do."""
        text = re.sub(r"<[^<>]*>", " ", content)
        if "![" in text:
            for token in _build_parser(self.is_mdx).parseInline(text):
                yield from (embed for embed in self._read_children(token.children or ()) if embed.kind != "link")

    def _read_inline(self, token: "Token") -> Iterator[Embed]:
        children = token.children or []
        yield from self._read_children(children)
        text = "".join(_render_token(child) for child in children)
        self.html_pieces.append(text)
        plain = "".join(_render_plain_text(child) for child in children)
        if "![" in plain:
            self.has_open_image = True
        if not self.is_mdx and TAG_IN_TEXT_PATTERN.search(
            plain
        ):  # not a tag in CommonMark, but in more lenient dialects
            yield from (embed for embed in find_in_html(plain) if embed.kind != "link")
        yield from _find_in_extensions(plain)

    def _read_children(self, children: "Sequence[Token]") -> Iterator[Embed]:
        for child in children:
            if child.type == "image":
                source = str(child.attrs.get("src", ""))
                yield from find_in_attributes("img", {"src": source})
            elif child.type == "link_open":
                address = str(child.attrs.get("href", ""))
                if runs_code(address):
                    yield Embed("script", shorten(address))
                elif find_host(address):
                    yield Embed("link", address)
            elif child.type == "html_inline":
                yield from find_in_html(child.content)
            elif child.type in ("text", "text_special"):
                yield from (Embed("link", url) for url in find_urls(child.content))
            elif child.type == "code_inline" and child.meta.get("lines"):
                yield from (embed for embed in find_in_html(child.content) if embed.kind != "link")


def _find_in_extensions(text: str) -> Iterator[Embed]:
    """Yields the embeds of attribute lists, shortcodes, templates and directives in a text."""
    if "{" in text:
        for match in BRACES_PATTERN.finditer(text):
            if "=" in match[1]:
                yield from (embed for embed in find_in_html(f"<img {match[1]}>") if embed.kind != "link")
        for match in SHORTCODE_PATTERN.finditer(text):
            shortcode = match[1] or match[2] or ""
            yield from find_in_html(f"<x-{shortcode.strip()}>")
            yield from (Embed("image", url) for url in find_urls(shortcode))
        for match in TEMPLATE_PATTERN.finditer(text):
            if not PLAIN_TEMPLATE_PATTERN.fullmatch(match.group()):
                yield Embed("script", shorten(match.group()), dialect="templates")
    if "8<" in text:
        yield from (
            Embed("script", url) for match in SNIPPET_PATTERN.finditer(text) for url in find_urls(match.group())
        )
    if "::" in text:
        yield from (
            Embed("image", url) for match in COLON_DIRECTIVE_PATTERN.finditer(text) for url in find_urls(match.group())
        )


def _render_token(token: "Token") -> str:
    if token.type == "html_inline":
        return token.content
    if token.type == "code_inline":
        return token.content if token.meta.get("lines") else " "
    return "\n" if "break" in token.type else html.escape(token.content)


def _render_plain_text(token: "Token") -> str:
    """Returns the token's text without code and escaped characters."""
    if token.type == "code_inline":
        return " "
    if token.type == "text_special" and token.content in ("<", "{", "!"):
        return " "
    return "\n" if "break" in token.type else token.content


def _flatten_brackets(text: str) -> Generator[Embed, None, str]:
    """Removes brackets from paragraphs that nest them too deeply, and yields what these may load. Returns the text."""
    if text.count("[") < MAX_BRACKETS:
        return text
    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.count("[") >= MAX_BRACKETS and _measure_depth(paragraph) >= MAX_BRACKETS:
            yield Embed("script", shorten(f"nested too deeply: {paragraph}"))
            yield from (Embed("image", url) for url in find_urls(paragraph))
            paragraphs[number] = re.sub(r"[\[\]]", " ", paragraph)
    return "\n\n".join(paragraphs)


def _measure_depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]]", text):
        depth = depth + 1 if bracket == "[" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


@cache
def _build_parser(is_mdx: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline, backtick

    def mark_lines(state: StateInline, silent: bool) -> bool:
        """Reads a code span, and marks one that extends over several lines, because dialects disagree on these."""
        start = state.pos
        is_code = backtick(state, silent)
        if is_code and not silent and state.tokens and state.tokens[-1].type == "code_inline":
            state.tokens[-1].meta["lines"] = "\n" in state.src[start : state.pos]
        return is_code

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "html": not is_mdx}).enable("table")
    if is_mdx:
        parser.disable("code")
    parser.disable("text_join")  # keeps escaped characters as separate tokens
    parser.inline.ruler.at("backticks", mark_lines)
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    return parser
