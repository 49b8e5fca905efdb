"""Finds content that a reStructuredText page loads or runs, with docutils. Does not include, fetch or run anything."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.urls import (
    TOO_LARGE,
    UNREADABLE,
    Embed,
    EmbedKind,
    find_host,
    find_urls,
    runs_code,
    shorten,
)

MAX_CHARS = 300_000
MAX_LINE_CHARS = 10_000
MAX_PARSE_COST = 20_000_000
MARKUP_PATTERN = re.compile(r"[*`|_]+")
DIRECTIVE_PATTERN = re.compile(r"^[ \t]*(?:\.\.[ \t]+(?:\|[^|\n]*\|[ \t]+)?|\|[^|\n]*\|[ \t]+)?([\w:+.-]+)::", re.M)
CODE_DIRECTIVES = {
    "code-block", "sourcecode", "highlight", "literalinclude", "prompt", "doctest", "testcode", "testoutput",
    "graphviz", "productionlist", "toctree", "index", "autosummary",
}  # fmt: skip
"""Sphinx directives whose content is displayed and not parsed."""
EXECUTED_DIRECTIVES = {
    "ipython",
    "jupyter-execute",
    "exec",
    "plot",
    "code-cell",
    "runblock",
    "command-output",
    "program-output",
}
TEXT_DIRECTIVES = {
    "button-link", "button-ref", "card", "collapse", "deprecated", "dropdown", "grid-item-card", "seealso", "tab",
    "tab-item", "todo", "versionadded", "versionchanged", "versionremoved",
}  # fmt: skip
"""Directives whose argument is displayed as text or used as a link."""
LINK_OPTIONS = {"target", "link", "link-alt", "alt", "caption", "name", "ref"}


def find_in_rst(text: str) -> Iterator[Embed]:
    """Yields the embeds and links of the page. A page that docutils cannot parse counts as a script."""
    if len(text) > MAX_CHARS or any(len(line) > MAX_LINE_CHARS for line in text.splitlines()) or _is_costly(text):
        yield Embed("script", TOO_LARGE)
        return
    from docutils import nodes

    try:
        document = _parse(text)
    except Exception:  # a hostile page may cause any error in the parser
        yield Embed("script", UNREADABLE)
        return
    for node in document.findall():
        yield from _read_node(node, nodes)


def _is_costly(text: str) -> bool:
    """Returns whether docutils may be slow: at each markup character it searches the rest of the paragraph."""
    cost = sum(len(MARKUP_PATTERN.findall(paragraph)) * len(paragraph) for paragraph in text.split("\n\n"))
    return cost > MAX_PARSE_COST


def _parse(text: str) -> Any:
    from docutils import frontend, utils
    from docutils.parsers.rst import Parser, directives
    from docutils.parsers.rst.languages import en

    settings = frontend.get_default_settings(Parser)
    settings.file_insertion_enabled = False
    settings.raw_enabled = True  # creates a node with the text; nothing runs it
    settings.report_level = 5
    settings.halt_level = 6
    settings.warning_stream = False
    settings.line_length_limit = MAX_LINE_CHARS
    document = utils.new_document("page", settings)
    unknown = {name.lower() for name in DIRECTIVE_PATTERN.findall(text)}
    unknown = {name for name in unknown if not directives.directive(name, en, document)[0]}
    for name in unknown:
        directives.register_directive(name, _build_directive())
    try:
        Parser().parse(text, document)
    finally:
        for name in unknown:
            directives._directives.pop(name, None)
    return document


def _read_node(node: Any, nodes: Any) -> Iterator[Embed]:
    line = node.line or (node.parent.line if node.parent is not None else 0) or 0
    if isinstance(node, nodes.raw):
        yield from (Embed(embed.kind, embed.url, line) for embed in find_in_html(node.astext()))
    elif isinstance(node, nodes.image):
        yield from _read_address("image", node.get("uri", ""), line)
    elif isinstance(node, nodes.reference | nodes.target):
        yield from _read_address("link", node.get("refuri", ""), line)
    elif isinstance(node, nodes.meta):
        yield from (Embed("redirect", url, line) for value in node.attributes.values() for url in find_urls(str(value)))
        if "refresh" in str(node.attributes.get("http-equiv", "")).lower():
            yield Embed("script", shorten(str(node.get("content", ""))), line)
    elif isinstance(node, nodes.container) and "directive" in node:
        yield from _read_directive(node, line)
    elif isinstance(node, nodes.Text) and not isinstance(node.parent, nodes.literal | nodes.literal_block | nodes.raw):
        yield from (Embed("link", url, line) for url in find_urls(node.astext()))


def _read_address(kind: EmbedKind, address: str, line: int) -> Iterator[Embed]:
    if runs_code(address):
        yield Embed("script", shorten(address), line)
    elif find_host(address):
        yield Embed(kind, address, line)


def _read_directive(node: Any, line: int) -> Iterator[Embed]:
    """Reads a directive that docutils does not know, whose argument and options may be loaded."""
    if node["directive"].lower() in EXECUTED_DIRECTIVES:
        yield Embed("script", shorten(node["directive"]), line)
    kind: EmbedKind = "link" if node["directive"].lower() in TEXT_DIRECTIVES else "image"
    for url in find_urls(node["argument"]):
        yield Embed(kind, url, line)
    for name, value in node["options"].items():
        for url in find_urls(value or ""):
            yield Embed("link" if name in LINK_OPTIONS else "image", url, line)


@cache
def _build_directive() -> Any:
    """Returns a directive that accepts any arguments and options, and parses its content as part of the page."""
    from docutils import nodes
    from docutils.parsers.rst import Directive

    class AnyOption(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return lambda value: value or ""

        def __bool__(self) -> bool:
            return True

    class AnyDirective(Directive):  # type: ignore[misc]
        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True
        option_spec = AnyOption()

        def run(self) -> list[Any]:
            argument = self.arguments[0] if self.arguments else ""
            node = nodes.container(directive=self.name, argument=argument, options=dict(self.options))
            node.line = self.lineno
            if self.name.lower() in CODE_DIRECTIVES:
                node += nodes.literal_block(self.block_text, "\n".join(self.content))
            else:
                self.state.nested_parse(self.content, self.content_offset, node)
            return [node]

    return AnyDirective
